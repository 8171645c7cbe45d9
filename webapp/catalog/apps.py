from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Methods, and the papers that concern them."""

    name = "webapp.catalog"

    def ready(self) -> None:
        """Answer for `method:` and `has:` in a search, and write corrections to links."""
        from webapp.catalog import corrections, queries  # noqa: PLC0415 - models are ready only now
        from webapp.claims.corrections import link_corrected  # noqa: PLC0415 - as above
        from webapp.papers.search import filters  # noqa: PLC0415 - as above

        filters.answer("method", lambda method, _reader: queries.papers_about(method))
        filters.answer("has", lambda what, _reader: queries.papers_with(what))
        link_corrected.answer(corrections.apply)
