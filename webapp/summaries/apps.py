from django.apps import AppConfig


class SummariesConfig(AppConfig):
    """Summaries by a model, checked against the paper."""

    name = "webapp.summaries"

    def ready(self) -> None:
        """Check summaries again when a reader corrects a table."""
        from webapp.claims.corrections import cells_corrected  # noqa: PLC0415 - models are ready
        from webapp.summaries.summarise import check_again  # noqa: PLC0415 - as above

        cells_corrected.answer(check_again)
