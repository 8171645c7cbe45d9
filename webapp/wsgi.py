"""The site as a WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
application = get_wsgi_application()

# What a press of Run needs, before a reader waits for it: Celery, and the client of Redis.
from webapp import redis_transport, tasks  # noqa: E402, F401

tasks.app()
