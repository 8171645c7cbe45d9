"""Database tests repeated on PostgreSQL: writes, locks, searches and long queries.

What only shows what such a query gave (forms, feeds, scoring, texts) is tested on SQLite alone, and
so is a file whose every query another file of these asks, too.
"""

import os
import subprocess

import pytest

from tests import forking
from tests.processes import ROOT

RUNS = (
    "test_dispatch.py",
    "test_hostile_worker.py",
    "test_record.py",
    "test_results.py",
    "test_retention.py",
    "test_standing.py",
    "test_states.py",
    "test_submit.py",
    "test_sweep.py",
    "web/test_views.py",
    "web/test_workers.py",
)
FILES = (
    "api",
    "catalog/test_linking.py",
    "digests/test_build.py",
    "digests/test_daily.py",
    "digests/test_marks_apart.py",
    "digests/test_views.py",
    "learning/test_similar.py",
    "library/test_events.py",
    "operate/test_archive.py",
    "operate/test_checks.py",
    "pages/test_kept_paper_page.py",
    "pages/test_revisions.py",
    "papers/test_enrich.py",
    "papers/test_limiter.py",
    "papers/test_polling.py",
    "papers/test_queries.py",
    "papers/test_sample.py",
    "papers/test_search.py",
    "papers/test_search_costs.py",
    "papers/test_settling.py",
    "papers/test_store.py",
    "papers/test_views.py",
    "readers/test_at_once.py",
    "readers/test_deleted_meanwhile.py",
    "readers/test_links.py",
    *(f"runs/{name}" for name in RUNS),
    "summaries/test_at_once.py",
    "summaries/test_summarise.py",
    "summaries/test_views.py",
    "ui/test_input.py",
    "workers/site/test_at_rest.py",
    "workers/site/test_connections.py",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
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
