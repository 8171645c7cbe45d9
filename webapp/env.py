"""Settings from the environment, validated when they are read.

Every variable that Assay reads is declared here with its default and described in
`docs/settings.md`, which a test compares with this list. Bench workers use this module too, so it
imports neither Django nor Celery.
"""

import os
import re
from contextlib import suppress
from email.utils import parseaddr
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MOST = 2**31


class SettingError(Exception):
    """A setting is invalid; the message names it, its value and what is expected."""


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its message would show a part of the password
        raise ValueError("no address; in a password / is %2F, [ is %5B and # is %23") from None
    return parts


def _address(text: str) -> str:
    parts = _parts(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError("write an http:// or https:// address")
    return text.rstrip("/")


def _server(url: SecretStr) -> SecretStr:
    _parts(url.get_secret_value())
    return url


def _mail_server(url: SecretStr) -> SecretStr:
    parts = _parts(text := url.get_secret_value())
    if text and not (parts.scheme in {"smtp", "smtps", "smtp+tls"} and parts.hostname):
        raise ValueError("write smtp+tls://user:password@host:587, or smtps:// or smtp://")
    return url


def _sender(text: str) -> str:
    if not text.isprintable() or not re.fullmatch(r"[^\s@]+@[^\s@]+", parseaddr(text)[1]):
        raise ValueError("write an address such as assay@digest.example")
    return text


Words = Annotated[  # split at commas and blanks
    tuple[str, ...], NoDecode, BeforeValidator(lambda text: text.replace(",", " ").split())
]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda text: text or None)]
Address = Annotated[str, AfterValidator(_address)]  # without a trailing slash
Server = Annotated[SecretStr, AfterValidator(_server)]
MailServer = Annotated[SecretStr, AfterValidator(_mail_server)]
Count = Annotated[int, Field(ge=0, le=MOST)]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda text: text.strip().upper())
]


def variable(default: str, name: str | None = None, **bounds: Any) -> Any:
    """Declare a variable with its default as written in a shell.

    Its name is the field's with the prefix ASSAY_; those that other software uses too have their
    own `name`.
    """
    return Field(default, validation_alias=name, **bounds)


def _name(field: str) -> str:
    return f"ASSAY_{field.upper()}"


class Settings(BaseSettings):
    """All settings. A variable that is empty counts as unset."""

    model_config = SettingsConfigDict(
        alias_generator=_name,
        env_ignore_empty=True,
        case_sensitive=True,
        extra="ignore",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    data: Path = variable("var")
    static: OptionalPath = variable("")
    secret_key: SecretStr = variable("")
    debug: bool = variable("0")
    hosts: Words = variable("localhost 127.0.0.1 [::1]")
    base_url: str = variable("")
    https: bool = variable("0")
    database_url: Server = variable("", "DATABASE_URL")
    celery_broker_url: Server = variable("", "CELERY_BROKER_URL")
    arxiv_rss_url: Address = variable("https://rss.arxiv.org")
    arxiv_api_url: Address = variable("https://export.arxiv.org/api/query")
    arxiv_site_url: Address = variable("https://arxiv.org")
    arxiv_seconds: int = variable("3", ge=0, le=3600)
    categories: Words = variable("cs.AI cs.CL cs.DC cs.LG")
    contact: str = variable("")
    smtp_url: MailServer = variable("")
    mail_from: Annotated[str, AfterValidator(_sender)] = variable("assay@localhost")
    connections: OptionalPath = variable("")
    run_minutes: int = variable("120", ge=0, le=1440)
    lease: int = variable("30", ge=3, le=3600)
    models: Words = variable("")
    worker_name: str = variable("")
    worker_key: SecretStr = variable("")
    worker_key_file: OptionalPath = variable("")
    worker_memory: Count = variable("0")
    bench_user: str = variable("")
    openai_base_url: Address = variable("https://api.openai.com/v1", "OPENAI_BASE_URL")
    openai_api_key: SecretStr = variable("", "OPENAI_API_KEY")
    summary_model: str = variable("")
    summary_concurrency: int = variable("3", ge=1, le=64)
    summary_papers: Count = variable("15")
    summary_characters: int = variable("80000", ge=2000, le=MOST)
    summary_daily_calls: Count = variable("200")
    summary_daily_tokens: Count = variable("5000000")
    runs_kept_days: Count = variable("0")
    log_level: LogLevel = variable("INFO")
    token: SecretStr = variable("")
    methods_path: str = variable("")
    web_concurrency: int = variable("0", "WEB_CONCURRENCY", ge=0, le=256)
    venv: str = variable(".venv")


def without_password(url: str) -> str:
    """A URL for printing: its password, if any, is replaced by ***."""
    before, at, rest = url.rpartition("@")
    scheme, slashes, user = before.rpartition("://")
    return f"{scheme}{slashes}{user.split(':')[0]}:***@{rest}" if at and ":" in user else url


@cache
def read() -> Settings:
    """The settings of this process. Raises SettingError."""
    try:
        return Settings()
    except ValidationError as error:
        raise SettingError(_text_of(error)) from None


def _text_of(error: ValidationError) -> str:
    """The first error as text: `ASSAY_DEBUG='perhaps': Input should be a valid boolean`."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    value = "…" if VARIABLES[name].annotation is SecretStr else os.environ.get(name, "")
    advice = first["msg"].removeprefix("Value error, ")
    return f"{name}={without_password(value)!r}: {advice}"


# By name, in the order of the documentation.
VARIABLES: dict[str, FieldInfo] = {
    str(field.validation_alias): field for field in Settings.model_fields.values()
}


def database_from(url: str) -> dict[str, object]:
    """Django's DATABASES entry for `sqlite:///path` or `postgresql://user:pw@host:port/name`.

    Raises SettingError for another scheme or a missing name.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and len(parts.path) > 1:
        return {
            "ENGINE": "webapp.sqlite",
            "NAME": unquote(parts.path[1:]),
            "CONN_MAX_AGE": 60,  # opening the file takes longer than most queries
            # A writer takes its lock at BEGIN: two writers queue up instead of failing midway.
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": (
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                    "PRAGMA mmap_size=134217728; PRAGMA cache_size=-16000;"
                ),
            },
        }
    if parts.scheme in {"postgres", "postgresql"} and len(parts.path) > 1:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path[1:]),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
        }
    raise SettingError(
        f"DATABASE_URL={without_password(url)!r}: "
        "write sqlite:////absolute/path or postgresql://user@host/name"
    )


def data_directory(root: Path) -> Path:
    """The data directory, created if needed and closed to other users.

    Raises SettingError if it cannot be written.
    """
    path = root / read().data.expanduser()
    os.umask(0o077)  # from here on only this user may read what this process writes
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"ASSAY_DATA={str(path)!r}: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingError(f"ASSAY_DATA={str(path)!r}: this user may not write there")
    # Older versions left files that others may read.
    for one in (path, *path.iterdir()):
        with suppress(OSError):  # deleted meanwhile, or another user's
            mode = one.lstat().st_mode
            if mode & 0o077 and not one.is_symlink():
                one.chmod(mode & 0o700)
    return path
