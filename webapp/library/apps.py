from django.apps import AppConfig


class LibraryConfig(AppConfig):
    """A reader's library, and what is learned from it."""

    name = "webapp.library"

    def ready(self) -> None:
        """Connect the receivers that learn from changes, and answer for what is a reader's own."""
        # Importing connects the receivers, which need the models.
        from webapp.digests.profiles import forms, views  # noqa: PLC0415
        from webapp.library import feedback, queries, zotero  # noqa: F401, PLC0415
        from webapp.papers import search  # noqa: PLC0415
        from webapp.ui import personal  # noqa: PLC0415

        personal.shelf_of.answer(queries.shelf_of)
        forms.list_sources.answer(feedback.sources)
        views.model_for.answer(feedback.model_for)
        for name, papers in queries.FIELDS.items():
            search.filters.answer(name, papers)
