"""Settings from the environment, read once, loudly.

Every variable Assay reads is declared here, with its default and what it does: `docs/settings.md`
is tested against this list. Neither Django nor Celery is loaded: bench workers read it too.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MOST = 2**31


class SettingError(Exception):
    """A setting cannot be used; the message names it, its value and what would do."""


def _split(text: object) -> object:
    return tuple(text.replace(",", " ").split()) if isinstance(text, str) else text


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError("write an http:// or https:// address")
    return text.rstrip("/")


def _mail_server(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in {"", "smtp", "smtps", "smtp+tls"} or bool(parts.scheme) != bool(
        parts.hostname
    ):
        raise ValueError("write smtp+tls://user:password@host:587, or smtps:// or smtp://")
    return url


def _upper(text: object) -> object:
    return text.strip().upper() if isinstance(text, str) else text


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]  # split at commas and blanks
OptionalPath = Annotated[Path | None, BeforeValidator(lambda text: text or None)]
Address = Annotated[str, AfterValidator(_address)]  # without a slash at the end
MailServer = Annotated[SecretStr, AfterValidator(_mail_server)]
Count = Annotated[int, Field(ge=0, le=MOST)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]


def variable(default: str, help: str, **bounds: Any) -> Any:  # noqa: A002
    """Declare a variable: its default as written in a shell, and what it does."""
    return Field(default, description=help, **bounds)


# Variables that others read too keep the names they have there.
OTHERS = {
    "database_url",
    "celery_broker_url",
    "openai_base_url",
    "openai_api_key",
    "web_concurrency",
}


def _name(field: str) -> str:
    return field.upper() if field in OTHERS else f"ASSAY_{field.upper()}"


class Settings(BaseSettings):
    """What a machine may choose. A variable that is empty counts as unset."""

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=_name),
        env_ignore_empty=True,
        case_sensitive=True,
        extra="ignore",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    data: Path = variable(
        "var",
        "Directory of the database, Redis's file and logs; a relative one lies in the checkout.",
    )
    static: OptionalPath = variable(
        "", "Directory static files are served from; in the data directory if unset."
    )
    secret_key: SecretStr = variable(
        "", "Key that signs sessions; made and kept in the data directory if unset."
    )
    debug: bool = variable("0", "Django's debug pages; never on a public machine.")
    hosts: Words = variable("localhost 127.0.0.1 [::1]", "Host names the site answers to.")
    base_url: str = variable("", "Public address used in feeds and links; else the request's own.")
    https: bool = variable("0", "Behind TLS: secure cookies, HSTS, X-Forwarded-Proto trusted.")
    database_url: SecretStr = variable("", "Database; SQLite in the data directory if unset.")
    celery_broker_url: SecretStr = variable(
        "", "A Redis; unset, `up` runs its own, on a socket in the data directory."
    )
    arxiv_rss_url: Address = variable("https://rss.arxiv.org", "arXiv's feeds, or a mirror.")
    arxiv_api_url: Address = variable(
        "https://export.arxiv.org/api/query", "arXiv's API, or a mirror."
    )
    arxiv_site_url: Address = variable(
        "https://arxiv.org", "arXiv's HTML and PDF pages, or a mirror."
    )
    arxiv_seconds: int = variable(
        "3", "Seconds between requests to arXiv, over all processes.", ge=0, le=3600
    )
    categories: Words = variable(
        "cs.AI cs.CL cs.DC cs.LG", "Categories polled whatever the profiles say."
    )
    contact: str = variable("", "Address put in the User-Agent of requests to arXiv.")
    smtp_url: MailServer = variable(
        "",
        "Server that mail is sent by: smtp+tls://user:password@host:587 (STARTTLS), smtps or smtp.",
    )
    mail_from: str = variable("assay@localhost", "Sender of all mail.")
    run_minutes: int = variable(
        "120", "Minutes of device time a reader may ask of the workers in a day.", ge=0, le=1440
    )
    lease: int = variable(
        "30",
        "Seconds of silence after which a bench worker is lost; it beats at a sixth.",
        ge=3,
        le=3600,
    )
    models: Words = variable(
        "",
        "Models that a run may name, on the site and on its workers; else the command line alone.",
    )
    worker_name: str = variable("", "A bench worker's name: small letters, digits, -.")
    worker_key: SecretStr = variable(
        "", "A bench worker's key, as `manage.py worker_key NAME` prints it."
    )
    worker_key_file: OptionalPath = variable(
        "", "A file that holds the key; used instead of ASSAY_WORKER_KEY."
    )
    worker_memory: Count = variable(
        "0", "Mebibytes one run may use; 0 for three quarters of the machine."
    )
    openai_base_url: Address = variable(
        "https://api.openai.com/v1", "An OpenAI-compatible server for summaries."
    )
    openai_api_key: SecretStr = variable("", "Its key; many local servers need none.")
    summary_model: str = variable("", "The model that summarises; without one, no model is asked.")
    summary_concurrency: int = variable("3", "Summaries made at one time.", ge=1, le=64)
    summary_papers: Count = variable(
        "15", "Papers of each day's digest that are summarised unasked."
    )
    summary_characters: int = variable(
        "80000", "Characters of a paper given to the model, from its start.", ge=2000, le=MOST
    )
    summary_daily_calls: Count = variable("200", "Requests to the model in a day (UTC).")
    summary_daily_tokens: Count = variable("5000000", "Tokens in a day (UTC), both ways together.")
    runs_kept_days: Count = variable(
        "0", "Days after which ended runs are deleted, standing ones apart; 0: never."
    )
    log_level: LogLevel = variable("INFO", "DEBUG, INFO, WARNING or ERROR.")
    token: SecretStr = variable("", "A reader's token, whose scopes `manage.py mcp` has on stdio.")
    methods_path: str = variable("", "Folders of methods beside Assay's own, as PATH lists them.")
    web_concurrency: int = variable(
        "0", "Processes of the web server; 0: one a core, 2 to 4.", ge=0, le=256
    )
    venv: str = variable(
        ".venv", "Virtual environment of `manage.py`; a relative one lies in the checkout."
    )


def without_password(url: str) -> str:
    """An address as it may be printed: its password, if any, as ***."""
    before, at, rest = url.rpartition("@")
    scheme, slashes, user = before.rpartition("://")
    return f"{scheme}{slashes}{user.split(':')[0]}:***@{rest}" if at and ":" in user else url


@cache
def read() -> Settings:
    """The settings of this process. Raises SettingError."""
    try:
        return Settings()
    except ValidationError as error:
        raise SettingError(_in_words(error)) from None


def _in_words(error: ValidationError) -> str:
    """`ASSAY_DEBUG='perhaps': Input should be a valid boolean`, of the first that is none."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    value = "…" if VARIABLES[name].annotation is SecretStr else os.environ.get(name, "")
    advice = first["msg"].removeprefix("Value error, ")
    return f"{name}={without_password(value)!r}: {advice}"


# By name, as the documents list them.
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
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path[1:]),
            "CONN_MAX_AGE": 60,  # to open the file and set it up takes longer than most queries
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
    """The data directory, made if it is not there, closed to all but this user.

    Raises SettingError where it cannot be written.
    """
    path = root / read().data.expanduser()
    os.umask(0o077)  # what this process writes from here on is its user's alone
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"ASSAY_DATA={str(path)!r}: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingError(f"ASSAY_DATA={str(path)!r}: this user may not write there")
    for one in (path, *path.iterdir()):
        _close(one)
    return path


def _close(path: Path) -> None:
    """Take the rights of others away, where an older version left them and the file is ours."""
    try:
        mode = path.lstat().st_mode
        if mode & 0o077 and not path.is_symlink():
            path.chmod(mode & 0o700)
    except OSError:
        return  # gone meanwhile, or another user's
