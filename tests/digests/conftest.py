from typing import Any

import pytest


@pytest.fixture(autouse=True)
def plain_static_files(settings: Any) -> None:
    """Pages that feeds lead to are opened without collecting static files first."""
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
