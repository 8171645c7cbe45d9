"""Finds out what is wrong with an installation, and what to do about it.

Each function below examines one part and yields findings; an error in one becomes a finding, and
the others still run. Nothing is changed.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Max
from django.utils import timezone

from webapp.core import connections
from webapp.core.database import DatabaseError as UnusableDatabaseError
from webapp.core.database import missing_migrations, refuse_damage
from webapp.operate.checks import readiness
from webapp.operate.failures import failing
from webapp.papers.days import eastern_date
from webapp.papers.models import Listing
from webapp.papers.queries import rows
from webapp.runs.queries import live_workers
from webapp.runs.web.views import installation
from webapp.summaries.models import Summary

Level = Literal["good", "note", "problem"]

GIB = 2**30
LITTLE_SPACE, NO_SPACE = 5 * GIB, GIB // 2
OLD_DAY = timedelta(days=5)  # more than a long weekend
LONGEST_CHECK = 600.0  # seconds of reading a file for damage
CLOCKS_APART = timedelta(seconds=5)


@dataclass(frozen=True)
class Finding:
    """A finding, and its remedy."""

    level: Level
    what: str
    todo: str = ""


def examine() -> Iterator[Finding]:
    """All findings, in the order in which to fix them."""
    looks = (_data_directory, _settings, _database, _processes, _intake, _summaries, _benchmarks)
    for look in looks:
        try:
            yield from look()
        except UnusableDatabaseError as error:
            yield Finding("problem", str(error))
            return  # the rest needs the database too
        except DatabaseError as error:
            yield Finding("problem", f"The database does not answer: {error}", DATABASE_HELP)
            return
        except OSError as error:
            yield Finding("problem", f"{look.__name__[1:]}: {error}")


DATABASE_HELP = "Is its server running, and is DATABASE_URL right? docs/settings.md"


def _data_directory() -> Iterator[Finding]:
    folder = settings.DATA_DIR
    if not folder.exists():
        return  # what is said of the database says it
    usage = shutil.disk_usage(folder)
    free = f"{usage.free / GIB:.1f} GiB are free in {folder}"
    if usage.free < NO_SPACE:
        yield Finding("problem", free, "Free some space: nothing new can be written soon.")
    elif usage.free < LITTLE_SPACE:
        yield Finding("note", free, "A year of arXiv takes about 5 GiB.")
    else:
        yield Finding("good", free)
    if not os.access(folder, os.W_OK):
        what = f"{folder} cannot be written by this user, or its disk is read-only"
        yield Finding("problem", what, "chown or chmod it, or mount the disk for writing.")
    files = ("secret_key", "assay.sqlite3")
    for path in (folder, *(folder / name for name in files), settings.CONNECTIONS_FILE):
        if path.exists() and path.stat().st_mode & 0o077:
            what = f"Other users of this machine may look into {path}"
            yield Finding("problem", what, f"chmod go= {path}")


def _settings() -> Iterator[Finding]:
    if settings.DEBUG:
        yield Finding("note", "ASSAY_DEBUG is on", "Never on a public machine: it shows settings.")
    scheme = urlsplit(settings.BASE_URL).scheme
    if scheme == "http" and settings.HTTPS:
        yield Finding(
            "problem",
            "ASSAY_HTTPS is on, but ASSAY_BASE_URL begins with http://",
            "Write https:// in ASSAY_BASE_URL: links in mails and feeds begin with it.",
        )
    if scheme == "https" and not settings.HTTPS:
        yield Finding(
            "problem",
            "ASSAY_BASE_URL begins with https://, but ASSAY_HTTPS=0",
            "Remove ASSAY_HTTPS: without it cookies are secure where the address is.",
        )
    if settings.HTTPS and not scheme:
        yield Finding(
            "note",
            "ASSAY_HTTPS is on without ASSAY_BASE_URL",
            "Set ASSAY_BASE_URL to the address that browsers use, with its port if it is not 443.",
        )


def _database() -> Iterator[Finding]:
    if lacking := missing_migrations():
        is_new = (
            connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists()
        )
        if is_new:
            raise UnusableDatabaseError(
                f"There is no site in {settings.DATA_DIR} yet: python3 manage.py up makes one."
            )
        raise UnusableDatabaseError(
            f"The database lacks {lacking} migration{'s' if lacking > 1 else ''} of this Assay. "
            "`python3 manage.py up` or `migrate` makes an archive, then applies all or none."
        )
    if connection.vendor == "sqlite":
        refuse_damage(LONGEST_CHECK)
    else:
        ((its_now,),) = rows("SELECT now()")
        apart = abs(its_now - timezone.now())
        if apart > CLOCKS_APART:
            yield Finding(
                "problem",
                f"This machine's clock and the database's are {apart.total_seconds():.0f} s apart",
                "Set both by NTP.",
            )


def _processes() -> Iterator[Finding]:
    checks = readiness()
    if not any(check.ok for check in checks if check.name in {"beat", "queue quick"}):
        yield Finding("note", "Assay is not running", "python3 manage.py up")
        return
    for failure in failing():
        yield Finding("problem", f"{failure}: {failure.error}", "The worker's log has the whole.")
    for check in checks:
        if check.name == "tasks":
            continue  # said above, with the error
        level: Level = "good" if check.ok else "problem"
        todo = "" if check.ok else "See its log: docs/operate.md, Monitoring."
        yield Finding(level, f"{check.name}: {check.detail}", todo)


def _intake() -> Iterator[Finding]:
    listings = Listing.objects.exclude(source=Listing.Source.SAMPLE)
    latest = listings.filter(state=Listing.State.COMPLETE).aggregate(day=Max("date"))["day"]
    failed = listings.filter(state=Listing.State.FAILED).order_by("-polled_at").first()
    why = f"The last failure: {failed.reason}" if failed else "Is the worker of the site running?"
    today = eastern_date(timezone.now())
    if latest is None:
        yield Finding("problem", "No day has come from arXiv yet", why)
    elif today - latest > OLD_DAY:
        yield Finding("problem", f"The latest day from arXiv is {latest}", f"{why} See /intake/.")
    else:
        yield Finding("good", f"The latest day from arXiv is {latest}")


def _summaries() -> Iterator[Finding]:
    try:
        connections.with_values(connections.stored())
    except (OSError, ValueError):
        what = f"{settings.CONNECTIONS_FILE} cannot be read: what was connected is not used"
        yield Finding("problem", what, "Connect it again: /connections/")
    model = connections.current().summary_model
    if not model:
        yield Finding(
            "note",
            "No model summarises: pages show what rules find in the abstract",
            "Connect one at /connections/: docs/models.md",
        )
        return
    over = (Summary.State.FAILED, Summary.State.DONE)
    last = Summary.objects.filter(state__in=over).order_by("-pk").first()
    if last and last.state == Summary.State.FAILED:
        yield Finding(
            "problem",
            f"The last summary by {model} failed: {last.reason}",
            "Retry it on /summaries/ once that is mended.",
        )
    else:
        yield Finding("good", f"{model} summarises")


def _benchmarks() -> Iterator[Finding]:
    installing = installation()
    if installing and installing["state"] == "failed":
        what = f"What methods need could not be installed: {installing['reason']}"
        yield Finding("problem", what, "Mend that and start `up` again, or use --no-ml.")
    live = live_workers().order_by("name")
    names = [f"{worker.name} ({worker.device_name})" for worker in live]
    if names:
        yield Finding("good", f"Runs are measured by {', '.join(names)}")
    else:
        yield Finding("note", "No worker measures runs now", "They wait. See /workers/.")
