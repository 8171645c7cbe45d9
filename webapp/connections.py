"""The model's server and the mail server that an administrator connects on a page.

They are kept as the variables of `webapp.env`, in a file that its owner alone may read; what the
environment sets goes before them. Whoever uses one reads the file then: nothing is started again.
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

from webapp.env import Settings, write_private

NAMES = (
    *("OPENAI_BASE_URL", "OPENAI_API_KEY", "ASSAY_SUMMARY_MODEL"),
    *("ASSAY_SMTP_URL", "ASSAY_MAIL_FROM"),
)
_KEPT = TypeAdapter(dict[str, str])


def current() -> Settings:
    """The settings with what is connected now."""
    with suppress(OSError):  # not to be read: `doctor` says so
        return _settings(_seal(), tuple(map(os.environ.get, NAMES)))
    return Settings()


def _seal() -> tuple[int, ...]:
    """Differs whenever the file does: each line of a log asks, and need not read it again."""
    try:
        file = settings.CONNECTIONS_FILE.stat()
    except FileNotFoundError:
        return ()
    return file.st_dev, file.st_ino, file.st_size, file.st_ctime_ns


@lru_cache(maxsize=1)  # to read settings takes a millisecond
def _settings(_file: tuple[int, ...], _environment: tuple[str | None, ...]) -> Settings:
    with suppress(ValueError):  # damaged by hand: `doctor` says so
        return with_values(kept())
    return Settings()


def with_values(values: Mapping[str, str]) -> Settings:
    """The settings with these values where the environment sets none. Raises ValidationError."""
    free: dict[str, Any] = _free(values)
    return Settings(**free)


def is_fixed(name: str) -> bool:
    """Whether the environment sets a variable."""
    return bool(os.environ.get(name))


def _free(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if not is_fixed(name)}


def kept() -> dict[str, str]:
    """What the file holds. Raises OSError, or ValueError where it is damaged."""
    try:
        return _KEPT.validate_json(settings.CONNECTIONS_FILE.read_bytes())
    except FileNotFoundError:
        return {}


def keep(values: Mapping[str, str]) -> None:
    """Keep values beside those that are kept; an empty one is forgotten. Raises OSError."""
    whole: dict[str, str] = {}
    with suppress(ValueError):  # damaged: it is made anew
        found = kept()
        with_values(found)
        whole = found
    whole |= _free(values)
    whole = {name: value for name, value in whole.items() if values.get(name, value)}
    write_private(settings.CONNECTIONS_FILE, json.dumps(whole, indent=1))


def smtp(connected: Settings) -> dict[str, Any]:
    """The mail server as Django's backend takes it; an empty host where there is none."""
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
    """The server that mail is sent by; empty where none is connected."""
    return str(smtp(current())["host"])


def secrets() -> tuple[str, ...]:
    """What no log and no page may show."""
    now = current()
    return now.openai_api_key.get_secret_value(), str(smtp(now)["password"])
