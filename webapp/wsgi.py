"""The site as a WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

from assay_common.env import data_directory
from webapp.ui.translations import compile_catalogues

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
data_directory()
application = get_wsgi_application()
compile_catalogues()

# Import Celery and the Redis client now, so that no reader who queues a run waits for it.
from assay_common import redis_transport  # noqa: E402, F401
from webapp.core import tasks  # noqa: E402

tasks.app()
