from django.apps import AppConfig


class LibraryConfig(AppConfig):
    """What a reader keeps, and what is learned from it."""

    name = "webapp.library"

    def ready(self) -> None:
        """Learn anew, in the background, whenever a reader kept or left a paper."""
        # Their receivers connect as they are loaded, and models are ready only now.
        from webapp.library import learning, queries, zotero  # noqa: F401, PLC0415
        from webapp.ui import personal  # noqa: PLC0415

        personal.shelf_of = queries.shelf_of
