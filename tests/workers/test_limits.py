"""Whatever a task waits for, it ends: all have a limit, and those of a busy queue a short one."""

from __future__ import annotations

from methods.worker.app import LONGEST_RUN
from methods.worker.app import app as bench
from workers.site.app import BRIEF, LONG
from workers.site.app import app as site

LONG_ONES = {
    "site.poll", "site.enrich", "site.build", "site.link", "site.learn_all", "site.mail",
    "site.tidy", "site.summaries", "site.vectors", "site.postings",
    "site.read_tables", "site.read_tables_of", "site.read_zotero",
}  # fmt: skip
SUMMARY = 2 * 30 * 60 + 600  # two answers of a model, and what else may be


def limits_of(application, *kinds: str) -> dict[str, float | None]:
    """By name; what both have loaded stands in both here, in one process."""
    application.loader.import_default_modules()  # as a worker does
    general = application.conf.task_time_limit
    tasks = application.tasks.items()
    return {name: task.time_limit or general for name, task in tasks if name.startswith(kinds)}


def test_every_task_ends() -> None:
    limits = limits_of(site, "site.", "runs.", "health.")
    long = {name: limit for name, limit in limits.items() if limit != BRIEF}
    assert long == dict.fromkeys(LONG_ONES, LONG) | {"site.summarise": SUMMARY}
    assert {"runs.record", "runs.sweep", "health.token"} <= limits.keys() - long.keys()
    assert limits_of(bench, "bench.") == {"bench.run": LONGEST_RUN}
