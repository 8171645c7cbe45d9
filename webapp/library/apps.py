from django.apps import AppConfig
from django.db.models.signals import post_delete


class LibraryConfig(AppConfig):
    """What a reader keeps, and what is learned from it."""

    name = "webapp.library"

    def ready(self) -> None:
        """Learn anew, in the background, whenever a reader kept or left a paper."""
        from django.contrib.auth.models import User  # noqa: PLC0415

        from webapp.library import learning, queries, zotero  # noqa: PLC0415 - models are ready only now
        from webapp.ui import personal  # noqa: PLC0415

        learning.watch()
        personal.shelf_of = queries.shelf_of
        post_delete.connect(zotero.forget, sender=User, dispatch_uid="forget Zotero")
