"""The choice of `manage.py test --fast`: no torch, no browser, no running site, nothing slow.

A module is left out by its imports or its path, a test by its marks and fixtures, and of a test of
the database every parameter but the first. The same rules tell `manage.py`, which has only the
standard library, whether named files need torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).resolve().parent
ON = "ASSAY_TEST_FAST" in os.environ
# torch, and what is made of it: the methods' models and what they share.
LIBRARIES = r"torch|transformers|sklearn|numpy|local_attention|peft"
ROOMS = "concept_lm|kit|measure|seps|sparse_attention|token_pruning|worker"
IMPORT = re.compile(
    rf"^\s*(?:import|from) (?:(?:{LIBRARIES})\b|(?:tests\.)?methods\.(?:{ROOMS})\b)", re.MULTILINE
)
# Processes take seconds to start, and may load torch.
PROCESSES = re.compile(r"^(?:import|from) (?:subprocess|multiprocessing)\b", re.MULTILINE)
# Running sites, models, all files of every method, every input at every address.
PLACES = (
    "assay_common",
    "api/test_hostile_input.py",
    "api/test_schemathesis.py",
    "browser",
    "catalog/test_reading.py",
    "catalog/test_training.py",
    "faults",
    *(f"methods/{room}" for room in ROOMS.split("|")),
    "methods/test_checks.py",
    "methods/test_cli.py",
    "methods/test_interrupts.py",
    "methods/test_new.py",
    "methods/test_trace.py",
    "methods/test_write_a_method.py",
    "papers/test_limiter.py",
    "workers",
)
# Whole days, hostile texts, unusual answers: a tenth of a second or more a test.
LONG = (
    "api/test_api.py",
    "catalog/test_figures_everywhere.py",
    "catalog/test_linking.py",
    "catalog/test_method_page.py",
    "catalog/test_sample.py",
    "core/test_sandbox.py",
    "digests/test_daily.py",
    "digests/test_nothing_changed.py",
    "digests/test_retention.py",
    "library/test_ranking.py",
    "library/test_references.py",
    "methods/test_gpu_command.py",
    "pages/test_kept_paper_page.py",
    "papers/test_broken_entries.py",
    "papers/test_polling.py",
    "papers/test_store.py",
    "runs/test_hostile_worker.py",
    "runs/test_record.py",
    "runs/test_sweep.py",
    "summaries/test_answer.py",
    "summaries/test_command.py",
    "summaries/test_grounded.py",
    "summaries/test_killed.py",
    "summaries/test_normalise.py",
    "summaries/test_streams.py",
    "summaries/test_summarise.py",
    "text/test_pathological.py",
)
EXAMPLES = 20  # of each property that hypothesis tries
MARKS = ("slow", "browser", "gpu")
# Tests of a time limit take a second or two.
TIMED = re.compile(
    r"_read_in_time|_within_two_seconds|_takes_seconds|_not_read_to_its_end|_to_their_end"
)
FIXTURES = {"chromium", "browser", "postgresql_url", "processes", "redis_url", "rig", "house"}


def leaves_out(path: Path) -> bool:
    """Return whether `--fast` skips this file or folder."""
    if any(path == TESTS / place for place in PLACES):
        return True
    is_test = path.suffix == ".py" and path.name.startswith("test_")
    if not is_test:
        return False
    text = path.read_text()
    return any(pattern.search(text) for pattern in (IMPORT, PROCESSES))


def takes_long(path: Path) -> bool:
    """Return whether `--fast` skips this file for its time alone."""
    return any(path == TESTS / place for place in LONG)


def named(arguments: Iterable[str]) -> list[Path]:
    """The files and folders of tests among the arguments of pytest."""
    found = [TESTS.parent / argument.partition("::")[0] for argument in arguments]
    return [path for path in found if path.is_relative_to(TESTS) and path.exists()]


def need_torch(paths: Iterable[Path]) -> bool:
    """Return whether a file among these, or in these folders, may load torch."""
    return any(
        leaves_out(path) for given in paths for path in (given, *given.parents, *given.rglob("*"))
    )


def keeps(item: pytest.Item) -> bool:
    """Return whether `--fast` runs this test."""
    if any(map(item.get_closest_marker, MARKS)) or TIMED.search(item.name.partition("[")[0]):
        return False
    return not FIXTURES & set(getattr(item, "fixturenames", ()))
