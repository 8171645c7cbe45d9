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
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests import databases, fast, machine
from tests.processes import PATIENCE
from tests.servers import stores
from webapp.env import VARIABLES
from webapp.ui.translations import compile_catalogues

gc.disable()  # until all modules are imported

if settings.configured:  # by pytest-django, with somebody else's data and database
    raise RuntimeError("Unset DJANGO_SETTINGS_MODULE: the tests choose their own settings.")
# Before Django's settings load: no test touches a developer's data, or obeys their settings.
for name in VARIABLES:
    if name != "ASSAY_VENV":  # the folder of the packages is no setting of the site
        os.environ.pop(name, None)
_data, _owner = tempfile.mkdtemp(prefix="assay-test-"), os.getpid()
os.environ["ASSAY_DATA"] = _data
os.environ.setdefault(databases.SHARED, _data)  # processes of xdist inherit the first one's
os.environ["ASSAY_STATIC"] = str(Path(os.environ[databases.SHARED], "static"))
# Tensors are small: one thread is faster, and leaves the cores to other tests.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
# Playwright's synchronous interface keeps an event loop in this thread for the whole session, so
# Django would take every later test of the process for asynchronous code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
# The one setting of a test session (tests/test_postgresql.py).
if url := os.environ.get("ASSAY_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = url
django.setup()
compile_catalogues()
# WhiteNoise looks static files up on request: listing all of them for each test client takes a
# seventh of the time of page tests.
settings.WHITENOISE_AUTOREFRESH = True
# pytest-django loads the settings where it finds this variable: in a process of xdist before it has
# read this file, and so with another process's data directory.
del os.environ["DJANGO_SETTINGS_MODULE"]


@atexit.register
def _remove_data() -> None:
    if os.getpid() == _owner:  # not at the end of a fork
        shutil.rmtree(_data, ignore_errors=True)


# No deadline for an example: a busy machine is slow.
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
    """Make a skip a failure in CI, except of tests that need a GPU or root."""
    report = yield
    if in_ci() and not any(map(item.get_closest_marker, ("gpu", "root"))):
        _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Make a skipped module a failure in CI."""
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
    """Keep modules and tests out of garbage collection, and collect the rest less often.

    Python's defaults take a tenth of all time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Select the tests of the session, group them, and put chains and slow tests first.

    A long test that starts last would run alone.
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


# Files that wait more than they work, each with its own rig. The files of a chain run one after the
# other in one process: two wait at once while the other processes work. The chains take about the
# same time.
CHAINS = (
    ("test_up.py", "test_full_postgresql.py", "test_closed_disk.py", "test_no_landlock.py"),
    ("test_kills.py", "test_storm.py", "test_messages.py", "test_background.py"),
)
# The longest computations.
LONGEST = ("test_what_speaks_to_the_database_holds_on_postgresql", "test_rows_that_train_pass")
CHAIN_OF = {name: number for number, names in enumerate(CHAINS) for name in names}


def turn(item: pytest.Item) -> tuple[int, int]:
    """Return a test's sort key: chains, the longest tests, the browser's, slow ones, the rest."""
    name = item.path.name
    if (chain := CHAIN_OF.get(name)) is not None:
        return chain, CHAINS[chain].index(name)
    if item.name.startswith(LONGEST):
        return len(CHAINS), -1
    return len(CHAINS), (
        0 if item.get_closest_marker("browser") else 1 if item.get_closest_marker("slow") else 2
    )


def _once_each(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return every test with its first parameters alone: the others make the same queries.

    Searches and triggers stay whole, since they differ between the databases, and so do texts with
    NUL, which PostgreSQL alone refuses.
    """
    first: dict[str, pytest.Item] = {}
    items = list(items)
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
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
    """Use SQLite in a file, as sites do: in memory it locks tables differently."""
    from django.db import connection

    if connection.vendor == "sqlite":
        file = Path(os.environ["ASSAY_DATA"], "test.sqlite3")
        databases.copy_to(file)
        connection.settings_dict["TEST"]["NAME"] = str(file)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the copied file as the database; it is deleted with its folder."""
    return not ON_POSTGRESQL


@pytest.fixture(scope="session")
def collected() -> Path:
    """The collected static files, for all sites of the session."""
    from workers.up.command import collect_static

    with databases.locked("static"):
        collect_static()
    return Path(settings.STATIC_ROOT)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, collected: Path) -> None:
    """Collect the static files, too."""


@pytest.fixture(autouse=True)
def _no_kept_pages() -> None:
    """Clear the page cache: rows of another test had the same keys."""
    from webapp.ui import pages

    pages.cache.clear()


@pytest.fixture(autouse=True)
def _plain_static(settings: Any) -> None:
    """Name static files as they are: nothing was hashed."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the system's Chromium."""
    return _needed(machine.CHROMIUM)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for all tests of a process: Playwright starts only once in a thread."""
    with sync_playwright() as playwright:
        # A separate GPU process takes a tenth of Chromium's time.
        arguments = ["--no-sandbox", "--in-process-gpu"]
        found = playwright.chromium.launch(executable_path=chromium, args=arguments)
        new_context = found.new_context

        def new_patient_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            context.set_default_timeout(1000 * PATIENCE)
            return context

        found.new_context = new_patient_context  # type: ignore[method-assign]
        yield found
        found.close()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis for this session: the machine's, else the one in the wheel."""
    program = _needed(machine.REDIS)
    with stores.redis(program, tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL cluster for this session: the machine's, else the one in the wheel."""
    initdb = _needed(machine.POSTGRESQL)
    with stores.postgresql(Path(initdb).parent) as url:
        yield url


def _needed(need: machine.Need) -> str:
    if found := need.find():
        return found
    pytest.skip(need.why_not)
