from django.apps import AppConfig


class LibraryConfig(AppConfig):
    """What a reader keeps, and what is learned from it."""

    name = "webapp.library"

    def ready(self) -> None:
        """Learn anew, in the background, whenever a reader kept or left a paper."""
        from webapp.library import learning, queries  # noqa: PLC0415 - models are ready only now
        from webapp.ui import personal  # noqa: PLC0415

        learning.watch()
        personal.shelves["kept"] = queries.shelf_of
