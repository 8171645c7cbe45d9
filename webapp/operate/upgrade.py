"""Upgrades the database: an archive is made of it first, and it is all or nothing."""

import logging
import shutil
import sqlite3
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError
from django.db import Error, OperationalError
from django.utils import timezone

from webapp.core.database import (
    MESSAGES,
    REASONS,
    DatabaseError,
    alone,
    apply_migrations,
    bring_up_to_date,
    database_trouble,
    described,
    is_new,
    missing_migrations,
    too_old,
)
from webapp.operate import archive
from webapp.operate.replacing import copied_database

PREFIX = "before-upgrade-"

log = logging.getLogger(__name__)


def upgrade() -> Path | None:
    """Bring the database up to date, or leave it as it was.

    Returns the archive that was made first, where one was. Raises DatabaseError.
    """
    if not missing_migrations() or is_new():
        bring_up_to_date()
        return None
    with alone():
        if not missing_migrations():  # another process was quicker
            return None
        if reason := described():
            log.warning("The database cannot be upgraded: %s.", reason)
            raise DatabaseError(too_old())
        saved = _archive()
        try:
            with copied_database():
                apply_migrations()
                if reason := described():
                    raise DatabaseError(f"{reason} after the upgrade")
        except Exception as error:
            if not isinstance(error, DatabaseError):  # which says itself what it is
                log.exception("The upgrade failed")
            raise DatabaseError(
                f"The upgrade failed, and the database is as it was: {_reason(error)}. Its archive "
                f"is {saved}. Go on with the version of Assay that you had, or repair this and run "
                "the command again."
            ) from error
        return saved


def _archive() -> Path:
    """Write an archive of the database beside it. Raises DatabaseError."""
    for left in settings.DATA_DIR.glob(f".{PREFIX}*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    target = settings.DATA_DIR / f"{PREFIX}{timezone.now():%Y-%m-%d-%H%M%S}.assay"
    try:
        archive.write(Path(target))
    except (CommandError, Error) as error:
        raise DatabaseError(
            "The database must be upgraded, and no archive of it could be made first: "
            f"{str(error).rstrip('.')}. Nothing was changed."
        ) from error
    return target


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "the disk cannot be written"
    cause = error.__cause__ if isinstance(error, DatabaseError) else error
    if isinstance(cause, sqlite3.OperationalError):  # of the copy, which Django does not make
        cause = OperationalError(*cause.args)
    if (trouble := database_trouble(cause)) in MESSAGES:
        return REASONS[trouble][:1].lower() + REASONS[trouble][1:]
    if isinstance(error, DatabaseError | Error | sqlite3.Error):
        return " ".join(str(error).split()).rstrip(".")[:300]
    return f"a migration is faulty ({type(error).__name__}; the log above says where)"
