"""The workers page: the workers, and the progress of the local installation."""

import json
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F

from assay_common.quantities import duration
from webapp.runs.models import WITH_WORKER, Run, Worker
from webapp.runs.queries import live_workers


@dataclass(frozen=True)
class ListedWorker:
    """A worker, whether it is alive, and its current run."""

    worker: Worker
    live: bool
    run: Run | None

    @property
    def memory(self) -> str:
        """The memory that one run may use."""
        return f"{self.worker.memory_mib / 1024:.1f} GiB" if self.worker.memory_mib else ""

    @property
    def versions(self) -> str:
        """Its software in one line."""
        return ", ".join(f"{name} {version}" for name, version in self.worker.versions.items())

    @property
    def state(self) -> tuple[str, str, str]:
        """Text, icon and tone."""
        if not self.worker.enabled:
            return "switched off", "empty", "none"
        if self.live and self.run:
            return "measuring", "stale", "running"
        if self.live:
            return "ready", "complete", "good"
        if self.worker.last_seen is None:
            word = "stopped" if self.worker.boot else "never seen"
            return word, "empty", "none"
        return "not responding", "failed", "bad"


def workers_now() -> list[ListedWorker]:
    """All workers, the live first."""
    live = set(live_workers())
    held = {run.worker_id: run for run in Run.objects.filter(state__in=WITH_WORKER)}
    everyone = Worker.objects.order_by(F("last_seen").desc(nulls_last=True), "name")
    listed = [ListedWorker(one, one in live, held.get(one.pk)) for one in everyone]
    return sorted(listed, key=lambda worker: not worker.live)


def installation() -> dict[str, str] | None:
    """The progress that `workers.up.install_ml` last wrote; None if there is nothing to show."""
    try:
        written = json.loads((settings.DATA_DIR / "ml-install.json").read_text())
        if written["state"] not in {"installing", "failed"}:
            return None
        return {
            "state": written["state"],
            "step": str(written.get("step", ""))[:200],
            "spent": duration(float(written["seconds"])) if written.get("seconds") else "",
            "reason": str(written.get("reason", ""))[:2_000],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None
