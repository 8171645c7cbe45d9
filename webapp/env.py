"""The site's settings from the environment, validated when they are read.

With those of `assay_common.env` these are all variables that Assay reads, each with its default;
`docs/settings.md` describes them, and a test compares the two.
"""

import re
from email.utils import parseaddr
from functools import cache
from typing import Annotated, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from assay_common import env
from assay_common.env import (
    LARGEST,
    Count,
    OptionalPath,
    Server,
    SettingError,
    Words,
    split_address,
    variable,
    without_password,
)
from webapp.core.addresses import plain_code, server_address


def _address(text: str) -> str:
    parts = split_address(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError("write an http:// or https:// address")
    return text.rstrip("/")


def _site_address(text: str) -> str:
    parts = split_address(text := text.strip())
    is_root = parts.path in {"", "/"} and not (parts.query or parts.fragment or parts.username)
    if text and not (parts.scheme in {"http", "https"} and parts.hostname and is_root):
        raise ValueError("write the site's public address, such as https://digest.example")
    return text.rstrip("/").lower()


def _host_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if "/" in name or re.search(r"(?<!:)(?<!\])[^:\]]:\d+$", name):
            raise ValueError(f"{name} is an address: write the host's name alone, without a port")
    return names


def _mail_server(url: SecretStr) -> SecretStr:
    parts = split_address(text := url.get_secret_value())
    if text and not (parts.scheme in {"smtp", "smtps", "smtp+tls"} and parts.hostname):
        raise ValueError("write smtp+tls://user:password@host:587, or smtps:// or smtp://")
    return url


def _sender(text: str) -> str:
    if not text.isprintable() or not re.fullmatch(r"[^\s@]+@[^\s@]+", parseaddr(text)[1]):
        raise ValueError("write an address such as assay@digest.example")
    return text


# Keys are set by hand: a clipboard's quotes and blanks are no part of them.
Key = Annotated[
    SecretStr, BeforeValidator(lambda key: plain_code(key) if isinstance(key, str) else key)
]
ModelServer = Annotated[str, AfterValidator(server_address)]
Address = Annotated[str, AfterValidator(_address)]  # without a trailing slash
MailServer = Annotated[SecretStr, AfterValidator(_mail_server)]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda text: text.strip().upper())
]


class Settings(env.CommonSettings):
    """All settings."""

    static: OptionalPath = variable("")
    secret_key: SecretStr = variable("")
    debug: bool = variable("0")
    hosts: Annotated[Words, AfterValidator(_host_names)] = variable("localhost 127.0.0.1 [::1]")
    base_url: Annotated[str, AfterValidator(_site_address)] = variable("")
    https: Annotated[bool | None, BeforeValidator(lambda text: text or None)] = variable("")
    database_url: Server = variable("", "DATABASE_URL")
    arxiv_rss_url: Address = variable("https://rss.arxiv.org")
    arxiv_api_url: Address = variable("https://export.arxiv.org/api/query")
    arxiv_site_url: Address = variable("https://arxiv.org")
    arxiv_seconds: int = variable("3", ge=0, le=3600)
    categories: Words = variable("cs.AI cs.CL cs.DC cs.LG")
    catch_up_days: int = variable("60", ge=1, le=3660)
    contact: str = variable("")
    smtp_url: MailServer = variable("")
    mail_from: Annotated[str, AfterValidator(_sender)] = variable("assay@localhost")
    connections: OptionalPath = variable("")
    run_minutes: int = variable("120", ge=0, le=1440)
    openai_base_url: ModelServer = variable("https://api.openai.com/v1", "OPENAI_BASE_URL")
    openai_api_key: Key = variable("", "OPENAI_API_KEY")
    summary_model: str = variable("")
    encoder: str = variable("sentence-transformers/all-MiniLM-L6-v2")
    encoder_url: Annotated[str, AfterValidator(lambda text: text and _address(text))] = variable("")
    encoder_key: Key = variable("")
    summary_concurrency: int = variable("0", ge=0, le=64)
    summary_papers: Count = variable("15")
    table_papers: Count = variable("30")
    summary_characters: int = variable("80000", ge=2000, le=LARGEST)
    summary_silence: float = variable("60", ge=1, le=3600)
    summary_seconds: float = variable("1800", ge=1, le=86400)
    trial_seconds: float = variable("45", ge=1, le=3600)
    summary_daily_calls: Count = variable("200")
    summary_daily_tokens: Count = variable("5000000")
    runs_kept_days: Count = variable("0")
    digests_kept_days: Count = variable("365")
    log_level: LogLevel = variable("INFO")
    token: Key = variable("")
    web_concurrency: int = variable("0", "WEB_CONCURRENCY", ge=0, le=256)
    venv: str = variable(".venv")


@cache
def read() -> Settings:
    """The settings of this process. Raises SettingError."""
    return env.read_as(Settings)


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
            "ENGINE": "webapp.core.sqlite",
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
            # sslmode and others, as libpq names them
            "OPTIONS": dict(parse_qsl(parts.query)),
        }
    raise SettingError(
        f"DATABASE_URL={without_password(url)!r}: "
        "write sqlite:////absolute/path or postgresql://user@host/name"
    )
