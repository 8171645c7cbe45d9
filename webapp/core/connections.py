"""The model server and the mail server that an administrator connects on a page.

They are stored under the names of `webapp.env`'s variables, in a file that only its owner may read;
the environment takes precedence. The file is read at each use, so no process needs a restart.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from pydantic import TypeAdapter

from assay_common.files import write_whole
from webapp.env import Settings

NAMES = (
    *("OPENAI_BASE_URL", "OPENAI_API_KEY", "ASSAY_SUMMARY_MODEL"),
    *("ASSAY_SMTP_URL", "ASSAY_MAIL_FROM"),
)
PAGE = "operate:connections"  # where an administrator connects them
_STORED = TypeAdapter(dict[str, str])


def current() -> Settings:
    """The settings, with the servers that are connected now."""
    with suppress(OSError, ValueError):  # unreadable or damaged: `doctor` reports it
        return _settings(_version(), tuple(map(os.environ.get, NAMES)))
    return Settings()


def _version() -> tuple[int, ...]:
    """A key that changes with the file, which is read only then: each log line asks for it."""
    try:
        file = settings.CONNECTIONS_FILE.stat()
    except FileNotFoundError:
        return ()
    return file.st_dev, file.st_ino, file.st_size, file.st_ctime_ns


@lru_cache(maxsize=1)  # reading the settings takes a millisecond
def _settings(_file: tuple[int, ...], _environment: tuple[str | None, ...]) -> Settings:
    return with_values(stored())


def with_values(values: Mapping[str, str]) -> Settings:
    """The settings with these values where the environment sets none. Raises ValidationError."""
    return Settings(**_free(values))


def is_fixed(name: str) -> bool:
    """True if the environment sets a variable."""
    return bool(os.environ.get(name))


def _free(values: Mapping[str, str]) -> dict[str, Any]:
    """The values of variables that the environment does not set."""
    return {name: value for name, value in values.items() if not is_fixed(name)}


def stored() -> dict[str, str]:
    """The stored values. Raises OSError, or ValueError if the file is damaged."""
    try:
        return _STORED.validate_json(settings.CONNECTIONS_FILE.read_bytes())
    except FileNotFoundError:
        return {}


def store(values: Mapping[str, str]) -> None:
    """Store values beside those already stored; an empty one is removed. Raises OSError."""
    whole: dict[str, str] = {}
    with suppress(ValueError):  # damaged: replaced
        present = stored()
        with_values(present)
        whole = present
    whole |= _free(values)
    whole = {name: value for name, value in whole.items() if values.get(name, value)}
    written = json.dumps(whole, indent=1).encode()
    write_whole(settings.CONNECTIONS_FILE, written, mode=0o600)


def smtp(connected: Settings) -> dict[str, Any]:
    """Return the mail server as arguments of Django's backend; an empty host if there is none."""
    parts = urlsplit(connected.smtp_url.get_secret_value())
    return {
        "host": parts.hostname or "",
        "port": parts.port or 587,
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_ssl": parts.scheme == "smtps",
        "use_tls": parts.scheme == "smtp+tls",
    }


def mail_host() -> str:
    """The host that mail is sent through; empty if none is connected."""
    return str(smtp(current())["host"])


def secrets() -> tuple[str, ...]:
    """Secrets that no log and no page may show."""
    now = current()
    return now.openai_api_key.get_secret_value(), str(smtp(now)["password"])
