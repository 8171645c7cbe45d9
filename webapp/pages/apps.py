from typing import Any

from django.apps import AppConfig, apps
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.models.signals import post_migrate, pre_migrate


class PagesConfig(AppConfig):
    """The pages that show several apps, and the revisions under which they are kept."""

    name = "webapp.pages"

    def ready(self) -> None:
        """Declare what raises a revision; no trigger is there while tables are migrated."""
        from webapp.core import revisions  # noqa: PLC0415 - as above
        from webapp.pages.revisions import WATCHES  # noqa: PLC0415 - models are ready only now

        def remove(using: str, **_: Any) -> None:
            revisions.remove(connections[using])

        def install(using: str, plan: object = None, **_: Any) -> None:
            # Not after a flush, which leaves triggers; nor with tables of an older release.
            if plan is not None and is_complete(connections[using]):
                revisions.install(connections[using])

        revisions.watch(*WATCHES)
        # By the app of the revisions: apps without tables of their own are not told.
        core = apps.get_app_config("ui")
        pre_migrate.connect(remove, sender=core, weak=False)
        post_migrate.connect(install, sender=core, weak=False)


def is_complete(database: BaseDatabaseWrapper) -> bool:
    """True if every migration is applied."""
    executor = MigrationExecutor(database)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())
