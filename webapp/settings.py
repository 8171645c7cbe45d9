"""Django's settings. Those that an operator may set come from `webapp.env`."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_urlsafe
from tempfile import NamedTemporaryFile
from urllib.parse import quote, urlsplit

from csp.constants import NONE, SELF
from django.utils.functional import SimpleLazyObject

from assay_common import redis_broker
from assay_common.env import data_directory, data_path
from webapp import env
from webapp.core import connections, logs

BASE_DIR = Path(__file__).resolve().parent.parent
ENV = env.read()
DATA_DIR = data_path()


@cache
def _kept_secret() -> str:
    """The secret in the data directory, made on first use; readable by its owner alone."""
    path = DATA_DIR / "secret_key"
    if not path.exists():
        with NamedTemporaryFile("w", dir=data_directory()) as draft:
            draft.write(token_urlsafe(50))
            draft.flush()
            # Linking is atomic, and of two processes the first wins.
            with suppress(FileExistsError):
                path.hardlink_to(draft.name)
    return path.read_text()


# Loading the settings writes nothing: a secret is made when one is needed.
SECRET_KEY = ENV.secret_key.get_secret_value() or SimpleLazyObject(_kept_secret)
DEBUG = ENV.debug
# The public address decides which host the site answers to, from where forms may be sent, and
# whether it is behind TLS.
BASE_URL = ENV.base_url
PUBLIC = urlsplit(BASE_URL)
HTTPS = PUBLIC.scheme == "https" if ENV.https is None else ENV.https
ALLOWED_HOSTS = list(dict.fromkeys([*ENV.hosts, *filter(None, [PUBLIC.hostname])]))
CSRF_TRUSTED_ORIGINS = [BASE_URL] if BASE_URL else []
CSRF_FAILURE_VIEW = "webapp.operate.views.csrf_failure"

# The apps that have pages, in the order in which their URL patterns are tried.
ROOMS = (
    *("pages", "digests", "papers", "library", "mail", "claims", "summaries", "catalog"),
    *("runs", "readers", "ui", "operate", "api"),
)
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "webapp.core",
    "webapp.learning",
    *(f"webapp.{room}" for room in ROOMS),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.ui.encodings.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "webapp.ui.language.LanguageMiddleware",
    "webapp.api.problems.ProblemMiddleware",
    "webapp.core.input.CleanInputMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webapp.core.limits.LimitMiddleware",
]

ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "NAME": "django",
        "BACKEND": "webapp.ui.typography.Templates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.papers.context.sample",
                "webapp.operate.failures.failing_here",
            ]
        },
    }
]

DATABASES = {
    "default": env.database_from(
        ENV.database_url.get_secret_value() or f"sqlite:///{quote(str(DATA_DIR / 'assay.sqlite3'))}"
    )
}

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "Simplified Chinese")]
LANGUAGE_COOKIE_NAME = "language"
LANGUAGE_COOKIE_AGE = 60 * 60 * 24 * 365
LANGUAGE_COOKIE_SAMESITE = "Lax"
LOCALE_PATHS = [BASE_DIR / "webapp" / "locale"]
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = ENV.static or DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.ui.storage.StaticFiles"},
}

# Everything that a page loads comes from its own origin.
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
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = LOGOUT_REDIRECT_URL = "/"
# Such a proxy also says for whom it asks; without one anybody could say so.
BEHIND_PROXY = HTTPS
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_SSL_HOST = PUBLIC.netloc if PUBLIC.scheme == "https" else None
    SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365
    # The prefix makes browsers refuse a cookie that another host or an unencrypted page set.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = True

ARXIV_RSS_URL = ENV.arxiv_rss_url
ARXIV_API_URL = ENV.arxiv_api_url
ARXIV_SITE_URL = ENV.arxiv_site_url
ARXIV_SECONDS = ENV.arxiv_seconds
ARXIV_CATEGORIES = list(ENV.categories)
CATCH_UP_DAYS = ENV.catch_up_days
ARXIV_CONTACT = ENV.contact

# Servers are read from the environment, else from this file: see `webapp.core.connections`.
CONNECTIONS_FILE = ENV.connections or DATA_DIR / "connections.json"
EMAIL_BACKEND = "webapp.mail.backend.EmailBackend"
EMAIL_TIMEOUT = 20  # seconds

RUN_MODELS = list(ENV.models)
RUNS_KEPT_DAYS = ENV.runs_kept_days
DIGESTS_KEPT_DAYS = ENV.digests_kept_days
RUN_MINUTES_A_DAY = ENV.run_minutes
ASSISTANT_TOKEN = ENV.token.get_secret_value()
SUMMARY_CONCURRENCY = ENV.summary_concurrency  # 0: as many as the server takes
SUMMARY_PROCESSES = SUMMARY_CONCURRENCY or 3
SUMMARY_PAPERS = ENV.summary_papers
TABLE_PAPERS = ENV.table_papers
SUMMARY_CHARACTERS = ENV.summary_characters
SUMMARY_SILENCE = ENV.summary_silence
SUMMARY_SECONDS = ENV.summary_seconds
TRIAL_SECONDS = ENV.trial_seconds
SUMMARY_DAILY_CALLS = ENV.summary_daily_calls
SUMMARY_DAILY_TOKENS = ENV.summary_daily_tokens

# Celery: the site's workers and beat; `redis_broker.configure` has what all workers share.
CELERY_BROKER_URL = redis_broker.url(DATA_DIR)
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # else anyone who reaches Redis could stop them
# Each queue of the site's workers keeps a promise, and none waits for another: a few seconds of
# work for a reader, hours of work for all, requests to arXiv within its limit, mail, what bench
# workers say, minutes of a model.
QUEUES = ["quick", "bulk", "arxiv", "mail", "events", "summaries"]
SMALL_QUEUES = ["quick", "mail", "arxiv"]  # they wait more than they work
CELERY_TASK_DEFAULT_QUEUE = "quick"
_TASKS_OF = {
    "bulk": (
        *("build", "link", "vectors", "postings", "learn_all", "summaries"),
        *("tidy", "read_zotero"),
    ),
    "arxiv": ("poll", "enrich", "save_named", "save_by", "read_tables", "read_tables_of"),
    "mail": ("mail",),
    "summaries": ("summarise",),
}
CELERY_TASK_ROUTES = {
    f"site.{task}": {"queue": queue} for queue, tasks in _TASKS_OF.items() for task in tasks
} | {"runs.*": {"queue": "events"}}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS_LEVEL = "INFO"  # what commands print is not a warning

LOG_LEVEL = ENV.log_level
# Their lines for each request and each periodic task are of no use.
QUIET_LOGGERS = ["httpx2", "arxiv"]
if LOG_LEVEL == "INFO":
    QUIET_LOGGERS += [
        "celery.worker.strategy",
        "celery.worker.request",
        "celery.app.trace",
        "celery.beat",
    ]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": logs.Formatter,
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
            "secrets": lambda: (
                # One that this process never read is in none of its lines.
                ENV.secret_key.get_secret_value()
                or (_kept_secret() if _kept_secret.cache_info().currsize else ""),
                ASSISTANT_TOKEN,
                urlsplit(CELERY_BROKER_URL).password or "",
                str(DATABASES["default"].get("PASSWORD", "")),
                *connections.secrets(),
            ),
        }
    },
    # Pages that are not found and a site that is not ready are not errors of this process.
    "filters": {
        "failures": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", 500) == 500,
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "django.request": {"filters": ["failures"]},
        **{name: {"level": "WARNING"} for name in QUIET_LOGGERS},
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
}
