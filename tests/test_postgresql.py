"""Tests repeated on PostgreSQL: locks, SQL of our own, searches, and one pass over the pages.

Whatever else asks the database goes through Django's models, which ask both in the same way.
"""

import os
import subprocess

import pytest

from tests import forking
from tests.processes import ROOT

FILES = (
    "api/test_reading.py",
    "digests/test_build.py",
    "digests/test_views.py",
    "learning/test_similar.py",
    "library/test_events.py",
    "operate/test_archive.py",
    "operate/test_checks.py",
    "pages/test_revisions.py",
    "papers/test_limiter.py",
    "papers/test_search.py",
    "papers/test_search_costs.py",
    "papers/test_store.py",
    "readers/test_at_once.py",
    "readers/test_deleted_meanwhile.py",
    "readers/test_links.py",
    "runs/test_dispatch.py",
    "runs/test_record.py",
    "runs/test_states.py",
    "runs/test_sweep.py",
    "runs/web/test_views.py",
    "summaries/test_at_once.py",
    "test_headers.py",
    "ui/test_input.py",
    "workers/site/test_at_rest.py",
    "workers/site/test_connections.py",
)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # the tests of 25 files, on a busy machine
def test_what_speaks_to_the_database_holds_on_postgresql(postgresql_url: str) -> None:
    arguments = ["-q", "-m", "not slow", *(f"tests/{file}" for file in FILES)]
    environment = {**os.environ, "ASSAY_TEST_DATABASE_URL": postgresql_url}
    # Set by what other tests import; tests/conftest.py refuses it.
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        forking.program(f"import pytest, sys; sys.exit(pytest.main({arguments!r}))"),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
