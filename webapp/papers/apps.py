from typing import Any

from django.apps import AppConfig
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class PapersConfig(AppConfig):
    """Papers, versions and listings."""

    name = "webapp.papers"

    def ready(self) -> None:
        """Give SQLite the function by which its index of papers folds their words."""
        connection_created.connect(_add_index_words)


def _add_index_words(connection: BaseDatabaseWrapper, **_: Any) -> None:
    from webapp.papers.search.query import index_words  # noqa: PLC0415 - models are ready only now

    if connection.vendor == "sqlite":
        connection.connection.create_function("index_words", 1, index_words, deterministic=True)
