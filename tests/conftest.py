"""Settings and fixtures of all tests: a temporary data directory, and real servers."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import django
import hypothesis
import pytest
from django.conf import settings
from django.test import TransactionTestCase
from playwright.sync_api import Browser, sync_playwright

from tests import databases, fast, machine
from tests.servers import stores
from webapp.env import VARIABLES
from webapp.ui.translations import compile_catalogues

gc.disable()  # until what stays was imported

if settings.configured:  # by pytest-django, with the data and the database of somebody else
    raise RuntimeError("Unset DJANGO_SETTINGS_MODULE: the tests choose their own settings.")
# Before Django's settings load: no test touches a developer's own data, or obeys their settings.
for name in VARIABLES:
    if name != "ASSAY_VENV":  # where the packages are is no setting of the site's
        os.environ.pop(name, None)
_data, _owner = tempfile.mkdtemp(prefix="assay-test-"), os.getpid()
os.environ["ASSAY_DATA"] = _data
os.environ.setdefault(databases.SHARED, _data)  # processes of xdist inherit the first one's
os.environ["ASSAY_STATIC"] = str(Path(os.environ[databases.SHARED], "static"))
# Small tensors: one thread is faster, and does not wait for the threads of other tests.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
# Playwright's synchronous interface keeps an event loop in this thread for the whole session;
# Django would take every test that follows in the same process for asynchronous code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
# The one setting that a run of the tests may choose (tests/test_postgresql.py).
if url := os.environ.get("ASSAY_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = url
django.setup()
compile_catalogues()
# WhiteNoise looks a static file up when it is asked for: to list all of them for each test client
# takes a seventh of the time of page tests.
settings.WHITENOISE_AUTOREFRESH = True
# Gone again: pytest-django loads the settings wherever it finds this, in a process of xdist before
# this file is read there, and so with another process's data directory.
del os.environ["DJANGO_SETTINGS_MODULE"]


@atexit.register
def _remove_data() -> None:
    if os.getpid() == _owner:  # a fork that ends must not take the session's data with it
        shutil.rmtree(_data, ignore_errors=True)


# An example may take its time: how fast a machine is when busy says nothing of the code.
PATIENT = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("assay", hypothesis.settings.default, **PATIENT)
if ON_POSTGRESQL := "ASSAY_TEST_DATABASE_URL" in os.environ:
    databases.empty_by_deleting()
hypothesis.settings.register_profile(
    "short", hypothesis.settings.default, max_examples=fast.EXAMPLES, **PATIENT
)
hypothesis.settings.load_profile("short" if fast.ON or ON_POSTGRESQL else "assay")


def in_ci() -> bool:
    """Return whether this is an integration server, on which every test can run."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI a skip is a failure: nothing stays untested unseen. Only a GPU may be missing, and what
    root alone may do.
    """
    report = yield
    if in_ci() and not any(map(item.get_closest_marker, ("gpu", "root"))):
        _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """The same for a module that skips itself."""
    report = yield
    if in_ci():
        _forbid_skip(report)
    return report


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"CI=true, so this skip is a failure: {reason}"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip the import of files that `--fast` leaves out: torch may be missing."""
    left_out = fast.ON and (fast.leaves_out(collection_path) or fast.takes_long(collection_path))
    return True if left_out else None


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: nothing looks for garbage among them again.

    Elsewhere it is looked for seldom: as often as Python does takes a tenth of all time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """What waits first, in two chains; then what is slow, since a long test that began last would
    keep one process busy alone.

    On a database that was asked for only what uses one.
    """
    if ON_POSTGRESQL:
        items[:] = _once_each(filter(_uses_database, items))
    if fast.ON:
        items[:] = filter(fast.keeps, items)
        once = {*_once_each(filter(_uses_database, items))}
        items[:] = [item for item in items if item in once or not _uses_database(item)]
    for item in items:
        chain = CHAIN_OF.get(item.path.name)
        if chain is not None:
            item.add_marker(pytest.mark.xdist_group(f"chain {chain}"))
        elif "standing_rig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        elif item.get_closest_marker("browser") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("browser"))  # one Chromium
    yield  # xdist reads the groups, pytest-django orders by the kind of test case
    items.sort(key=turn)


# Files that wait more than they work, each with a rig of its own. Those of a chain come one after
# the other in one process: two wait at once while the other processes work, and none is the last
# to end. The chains take about the same time.
CHAINS = (
    ("test_up.py", "test_full_postgresql.py", "test_closed_disk.py", "test_no_landlock.py"),
    ("test_kills.py", "test_storm.py", "test_messages.py", "test_background.py"),
)
# The longest computations.
LONGEST = ("test_what_speaks_to_the_database_holds_on_postgresql", "test_rows_that_train_pass")
CHAIN_OF = {name: number for number, names in enumerate(CHAINS) for name in names}


def turn(item: pytest.Item) -> tuple[int, int]:
    """The place of a test: its chain, the longest, those of the browser, and then what is slow."""
    name = item.path.name
    if (chain := CHAIN_OF.get(name)) is not None:
        return chain, CHAINS[chain].index(name)
    if item.name.startswith(LONGEST):
        return len(CHAINS), -1
    return len(CHAINS), (
        0 if item.get_closest_marker("browser") else 1 if item.get_closest_marker("slow") else 2
    )


def _once_each(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Every test, with the first of its parameters: the others ask the same queries.

    Not where each parameter is a search, which the two databases answer in ways of their own. NUL
    in a text is PostgreSQL's alone to refuse, so whatever holds one stays.
    """
    first: dict[str, pytest.Item] = {}
    items = list(items)
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    # The latter two of triggers, by kind of write.
    whole = {"test_search.py", "test_revisions.py", "test_events.py"}
    every = {item for item in items if item.path.name in whole or "x00" in item.nodeid}
    return [item for item in items if item in first.values() or item in every]


def _uses_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db"} & set(getattr(item, "fixturenames", ()))
    case = getattr(item, "cls", None)
    marked = item.get_closest_marker("django_db") is not None
    return marked or bool(fixtures) or (case is not None and issubclass(case, TransactionTestCase))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """SQLite in a file, as outside tests: in memory it locks tables in ways a file does not."""
    from django.db import connection

    if connection.vendor == "sqlite":
        file = Path(os.environ["ASSAY_DATA"], "test.sqlite3")
        databases.lay(file)
        connection.settings_dict["TEST"]["NAME"] = str(file)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The file that was laid there is the database; it goes with its folder."""
    return not ON_POSTGRESQL


@pytest.fixture(scope="session")
def collected() -> Path:
    """The static files that pages name, as `up` collects them, for all sites of a session."""
    from workers.up.command import collect_static

    with databases.alone("static"):
        collect_static()
    return Path(settings.STATIC_ROOT)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, collected: Path) -> None:
    """Beside the database, the static files."""


@pytest.fixture(autouse=True)
def _no_kept_pages() -> None:
    """No test is answered with the page of another, whose rows had the same keys."""
    from webapp.ui import pages

    pages.cache.clear()


@pytest.fixture(autouse=True)
def _plain_static(settings: Any) -> None:
    """Pages in tests name static files as they are: nothing was collected and hashed."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the system's Chromium."""
    return _needed(machine.CHROMIUM)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for all tests of a process: Playwright can be started but once in a thread."""
    with sync_playwright() as playwright:
        # A process for drawing takes a tenth of all that Chromium takes.
        arguments = ["--no-sandbox", "--in-process-gpu"]
        found = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of this session's own: the machine's, else the one in the wheel."""
    program = _needed(machine.REDIS)
    with stores.redis(program, tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL cluster of this session's own: the machine's, else the one in the wheel."""
    initdb = _needed(machine.POSTGRESQL)
    with stores.postgresql(Path(initdb).parent) as url:
        yield url


def _needed(need: machine.Need) -> str:
    if found := need.find():
        return found
    pytest.skip(need.why_not)
