"""Settings from the environment, read once, loudly.

Every variable Assay reads is declared here, with its default and what it does:
`docs/settings.md` is tested against this list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


class SettingError(Exception):
    """A setting cannot be used; the message names it, its value and what would do."""


@dataclass(frozen=True)
class Variable:
    """One environment variable: its name, default (as written in a shell) and meaning."""

    name: str
    default: str
    help: str

    def text(self, env: Mapping[str, str] | None = None) -> str:
        """The value as given, or the default where the variable is unset or empty."""
        return (os.environ if env is None else env).get(self.name, "") or self.default

    def flag(self) -> bool:
        """The value as yes or no."""
        value = self.text().strip().lower()
        if value in TRUE:
            return True
        if value in FALSE:
            return False
        raise SettingError(f"{self.name}={value!r}: write 1 or 0")

    def number(self, least: int = 0, most: int = 2**31) -> int:
        """The value as a whole number within [least, most]."""
        value = self.text()
        try:
            number = int(value)
        except ValueError:
            raise SettingError(f"{self.name}={value!r}: write a whole number") from None
        if not least <= number <= most:
            raise SettingError(f"{self.name}={value!r}: write a number from {least} to {most}")
        return number

    def choice(self, *choices: str) -> str:
        """The value as one of `choices`, in any case of letters."""
        value = self.text().strip().upper()
        if value not in choices:
            raise SettingError(f"{self.name}={value!r}: write one of {', '.join(choices)}")
        return value

    def words(self) -> list[str]:
        """The value as a list, split at commas and blanks."""
        return self.text().replace(",", " ").split()

    def url(self) -> str:
        """The value as an http(s) address without a trailing slash."""
        value = self.text()
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise SettingError(f"{self.name}={value!r}: write an http:// or https:// address")
        return value.rstrip("/")


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
        f"DATABASE_URL={url!r}: write sqlite:////absolute/path or postgresql://user@host/name"
    )


DATA = Variable(
    "ASSAY_DATA",
    "var",
    "Directory of the database, broker files and logs; a relative one lies in the checkout.",
)
STATIC = Variable(
    "ASSAY_STATIC", "", "Directory static files are served from; in the data directory if unset."
)
SECRET_KEY = Variable(
    "ASSAY_SECRET_KEY", "", "Key that signs sessions; made and kept in the data directory if unset."
)
DEBUG = Variable("ASSAY_DEBUG", "0", "Django's debug pages; never on a public machine.")
HOSTS = Variable("ASSAY_HOSTS", "localhost 127.0.0.1 [::1]", "Host names the site answers to.")
BASE_URL = Variable(
    "ASSAY_BASE_URL", "", "Public address used in feeds and links; else the request's own."
)
HTTPS = Variable("ASSAY_HTTPS", "0", "Behind TLS: secure cookies, HSTS, X-Forwarded-Proto trusted.")
DATABASE_URL = Variable("DATABASE_URL", "", "Database; SQLite in the data directory if unset.")
BROKER_URL = Variable(
    "CELERY_BROKER_URL", "", "Celery's broker; files in the data directory if unset."
)
RSS_URL = Variable("ASSAY_ARXIV_RSS_URL", "https://rss.arxiv.org", "arXiv's feeds, or a mirror.")
API_URL = Variable(
    "ASSAY_ARXIV_API_URL", "https://export.arxiv.org/api/query", "arXiv's API, or a mirror."
)
SITE_URL = Variable(
    "ASSAY_ARXIV_SITE_URL", "https://arxiv.org", "arXiv's HTML and PDF pages, or a mirror."
)
ARXIV_SECONDS = Variable(
    "ASSAY_ARXIV_SECONDS", "3", "Seconds between requests to arXiv, over all processes."
)
CATEGORIES = Variable(
    "ASSAY_CATEGORIES", "cs.AI cs.CL cs.DC cs.LG", "Categories polled whatever the profiles say."
)
CONTACT = Variable("ASSAY_CONTACT", "", "Address put in the User-Agent of requests to arXiv.")
RUN_MINUTES = Variable(
    "ASSAY_RUN_MINUTES", "120", "Minutes of device time a reader may ask of the workers in a day."
)
LEASE = Variable(
    "ASSAY_LEASE",
    "30",
    "Seconds of silence after which a bench worker is lost; it beats at a sixth.",
)
MODELS = Variable(
    "ASSAY_MODELS",
    "",
    "Models that a run may name, on the site and on its workers; else the command line alone.",
)
WORKER_NAME = Variable("ASSAY_WORKER_NAME", "", "A bench worker's name: small letters, digits, -.")
WORKER_KEY = Variable(
    "ASSAY_WORKER_KEY", "", "A bench worker's key, as `manage.py worker_key NAME` prints it."
)
WORKER_KEY_FILE = Variable(
    "ASSAY_WORKER_KEY_FILE", "", "A file that holds the key; used instead of ASSAY_WORKER_KEY."
)
WORKER_MEMORY = Variable(
    "ASSAY_WORKER_MEMORY", "0", "Mebibytes one run may use; 0 for three quarters of the machine."
)
OPENAI_BASE_URL = Variable(
    "OPENAI_BASE_URL", "https://api.openai.com/v1", "An OpenAI-compatible server for summaries."
)
OPENAI_API_KEY = Variable("OPENAI_API_KEY", "", "Its key; many local servers need none.")
SUMMARY_MODEL = Variable(
    "ASSAY_SUMMARY_MODEL", "", "The model that summarises; without one, no model is asked."
)
SUMMARY_CONCURRENCY = Variable("ASSAY_SUMMARY_CONCURRENCY", "3", "Summaries made at one time.")
SUMMARY_PAPERS = Variable(
    "ASSAY_SUMMARY_PAPERS", "15", "Papers of each day's digest that are summarised unasked."
)
SUMMARY_CHARACTERS = Variable(
    "ASSAY_SUMMARY_CHARACTERS", "80000", "Characters of a paper given to the model, from its start."
)
SUMMARY_DAILY_CALLS = Variable(
    "ASSAY_SUMMARY_DAILY_CALLS", "200", "Requests to the model in a day (UTC)."
)
SUMMARY_DAILY_TOKENS = Variable(
    "ASSAY_SUMMARY_DAILY_TOKENS", "5000000", "Tokens in a day (UTC), both ways together."
)
LOG_LEVEL = Variable("ASSAY_LOG_LEVEL", "INFO", "DEBUG, INFO, WARNING or ERROR.")


def data_directory(root: Path) -> Path:
    """The data directory, made if it is not there; SettingError where it cannot be written."""
    path = root / Path(DATA.text()).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"{DATA.name}={str(path)!r}: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingError(f"{DATA.name}={str(path)!r}: this user may not write there")
    return path


VARIABLES: tuple[Variable, ...] = tuple(v for v in globals().values() if isinstance(v, Variable))
