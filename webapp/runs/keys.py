"""The key that each worker shares with the site, which signs its events and its jobs.

Keys are derived from the site's own secret, so the database holds none; to rotate one, a version
number is incremented.
"""

import hashlib
import hmac
import re

from django.conf import settings
from django.db.models import F

from webapp.runs.models import Worker

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def key_of(worker: Worker) -> bytes:
    """The key of `worker`, 32 bytes."""
    message = f"assay worker {worker.name} {worker.key_version}"
    return hmac.new(settings.SECRET_KEY.encode(), message.encode(), hashlib.sha256).digest()


def key_named(name: str) -> bytes | None:
    """The key of the worker called `name`; None if it is unknown.

    The name comes from a message whose signature has not been checked: it may be any text.
    """
    if not NAME.fullmatch(name):
        return None
    worker = Worker.objects.filter(name=name).first()
    return key_of(worker) if worker else None


def issue(name: str, *, rotate: bool = False) -> str:
    """The key of worker `name` in hexadecimal; registers the worker on first use.

    `rotate` makes a new key: messages signed with the old one are dropped from then on. Raises
    ValueError for an invalid name.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r}: write small letters, digits, - and _, at most 63 of them")
    worker, created = Worker.objects.get_or_create(name=name)
    if rotate and not created:
        Worker.objects.filter(pk=worker.pk).update(key_version=F("key_version") + 1)
        worker.refresh_from_db()
    return key_of(worker).hex()
