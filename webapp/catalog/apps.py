from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Methods, and the papers that concern them."""

    name = "webapp.catalog"

    def ready(self) -> None:
        """Answer for `method:` and `has:` in a search."""
        from webapp.catalog import queries  # noqa: PLC0415 - models are ready only now
        from webapp.papers.search import filters  # noqa: PLC0415 - as above

        filters.answer("method", lambda method, _reader: queries.papers_about(method))
        filters.answer("has", lambda what, _reader: queries.papers_with(what))
