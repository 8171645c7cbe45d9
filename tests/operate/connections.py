"""Forms of /connections/ as an administrator sends them, and the file that they are kept in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.servers.openai import OpenAIServer

ADDRESS = "/connections/"
SECRET = "sk-nobody-may-see-this"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, settings: Any) -> Path:
    settings.CONNECTIONS_FILE = tmp_path / "connections.json"
    settings.EMAIL_BACKEND = "webapp.mail.backend.EmailBackend"
    return tmp_path / "connections.json"


@pytest.fixture(autouse=True)
def administrator(client: Client) -> User:
    made = User.objects.create_superuser("root", "root@home.example")
    client.force_login(made)
    return made


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def sent(client: Client, connection: str, act: str = "try", **fields: object) -> str:
    """The page after a form was sent."""
    whole = {"connection": connection, act: "1"} | fields
    return client.post(ADDRESS, whole, follow=True).content.decode()


def of_model(url: str, **other: str) -> dict[str, str]:
    return {"base_url": url, "model": "small", "key": SECRET} | other


def of_mail(port: int, **other: str) -> dict[str, object]:
    return {
        "host": "localhost", "port": port, "scheme": "smtp+tls", "username": "ada",
        "password": SECRET, "sender": "assay@site.example", "to": "root@home.example",
    } | other  # fmt: skip
