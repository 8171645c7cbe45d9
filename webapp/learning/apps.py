from django.apps import AppConfig


class LearningConfig(AppConfig):
    """Models learned from texts, and the vectors of papers."""

    name = "webapp.learning"

    def ready(self) -> None:
        """Let a search ask for papers near in meaning, and for papers like another."""
        from webapp.learning import similar, vector_index  # noqa: PLC0415 - models are ready now
        from webapp.papers import search  # noqa: PLC0415 - as above

        search.nearest_by_meaning.answer(vector_index.nearest_to)
        search.papers_like.answer(similar.keys_like)
