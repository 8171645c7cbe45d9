from django.apps import AppConfig


class LearningConfig(AppConfig):
    """What is learned from texts, and the vectors of papers."""

    name = "webapp.learning"

    def ready(self) -> None:
        """Order what a search found by meaning, where an encoder is there."""
        from webapp.learning import vectors  # noqa: PLC0415 - models are ready only now
        from webapp.papers import search  # noqa: PLC0415 - as above

        search.order_by_meaning.answer(vectors.by_meaning)
