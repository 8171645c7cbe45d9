"""Django's settings. Whatever a machine may choose comes from `webapp.env`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe

from csp.constants import NONE, SELF

from webapp import env, transport

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.data_directory(BASE_DIR)


def _kept_secret(path: Path) -> str:
    """The secret in `path`, made on first use; readable by its owner alone."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(token_urlsafe(50))
        # A link appears whole or not at all, and the first of two processes wins.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text()


SECRET_KEY = env.SECRET_KEY.text() or _kept_secret(DATA_DIR / "secret_key")
DEBUG = env.DEBUG.flag()
ALLOWED_HOSTS = env.HOSTS.words()
BASE_URL = env.BASE_URL.text().rstrip("/")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "webapp.ui",
    "webapp.readers",
    "webapp.papers",
    "webapp.digests",
    "webapp.runs",
    "webapp.summaries",
    "webapp.catalog",
    "webapp.health",
    "webapp.api",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.papers.context.sample",
            ],
        },
    },
]

DATABASES = {
    "default": env.database_from(
        env.DATABASE_URL.text() or f"sqlite:///{DATA_DIR / 'assay.sqlite3'}"
    )
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.STATIC.text() or DATA_DIR / "static")
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.ui.storage.StaticFiles"},
}

# Everything a page needs comes from its own origin.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 90
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
if env.HTTPS.flag():
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True

ARXIV_RSS_URL = env.RSS_URL.url()
ARXIV_API_URL = env.API_URL.url()
ARXIV_SITE_URL = env.SITE_URL.url()
ARXIV_SECONDS = env.ARXIV_SECONDS.number(most=3600)
ARXIV_CATEGORIES = env.CATEGORIES.words()
ARXIV_CONTACT = env.CONTACT.text()

RUN_LEASE = env.LEASE.number(least=3, most=3600)
RUN_MODELS = env.MODELS.words()
RUN_MINUTES_A_DAY = env.RUN_MINUTES.number(most=24 * 60)
OPENAI_BASE_URL = env.OPENAI_BASE_URL.url()
OPENAI_API_KEY = env.OPENAI_API_KEY.text()
SUMMARY_MODEL = env.SUMMARY_MODEL.text()
SUMMARY_CONCURRENCY = env.SUMMARY_CONCURRENCY.number(least=1, most=64)
SUMMARY_PAPERS = env.SUMMARY_PAPERS.number()
SUMMARY_CHARACTERS = env.SUMMARY_CHARACTERS.number(least=2_000)
SUMMARY_DAILY_CALLS = env.SUMMARY_DAILY_CALLS.number()
SUMMARY_DAILY_TOKENS = env.SUMMARY_DAILY_TOKENS.number()

# Celery: the site's worker and beat. Queue names hold no dot: the filesystem transport splits
# file names there.
CELERY_BROKER_URL = env.BROKER_URL.text() or "filesystem://localhost"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = transport.options(CELERY_BROKER_URL, DATA_DIR)
CELERY_TASK_DEFAULT_QUEUE = "site"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True  # what a task did stands in the database
CELERY_TIMEZONE = TIME_ZONE
CELERY_WORKER_POOL = "prefork"  # solo would not answer control commands while a task runs
CELERY_WORKER_CONCURRENCY = 1
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_MAX_LOOP_INTERVAL = 5  # seconds between two signs of life
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat-schedule")

LOG_LEVEL = env.LOG_LEVEL.choice("DEBUG", "INFO", "WARNING", "ERROR")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    # One line a request of theirs says nothing that the audit does not.
    "loggers": {name: {"level": "WARNING"} for name in ("httpx", "httpx2", "arxiv")},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
}
