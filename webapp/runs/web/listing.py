"""The list of runs: filters that live in the query string, and a line a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from methods import registry
from webapp.runs.models import ENDED, OPEN, Device, Run, State
from webapp.runs.web import present
from webapp.runs.web.state_text import ICONS, TONES, took

GROUPS = {"open": OPEN, "ended": ENDED}  # beside each single state


@dataclass(frozen=True)
class Filters:
    """What a list is narrowed to; an unknown value narrows nothing."""

    method: str = ""
    benchmark: str = ""
    state: str = ""
    device: str = ""
    mine: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """The filters of a query string."""
        state, device = query.get("state", ""), query.get("device", "")
        return cls(
            method=query.get("method", "")[:64],
            benchmark=query.get("benchmark", "")[:64],
            state=state if state in {*State.values, *GROUPS} else "",
            device=device if device in Device.values else "",
            mine="1" if query.get("mine") else "",
        )

    def narrow(self, runs: QuerySet[Run], reader: User | AnonymousUser) -> QuerySet[Run]:
        """The runs that fit, the latest first."""
        named = {"method": self.method, "benchmark": self.benchmark, "device": self.device}
        runs = runs.filter(**{name: value for name, value in named.items() if value})
        if self.state:
            runs = runs.filter(state__in=GROUPS.get(self.state, (self.state,)))
        if self.mine:
            runs = runs.filter(reader=reader) if reader.is_authenticated else runs.none()
        related = runs.select_related("environment", "worker", "reader")
        return related.order_by("-queued_at", "pk")

    def choices(self) -> dict[str, list[tuple[str, str]]]:
        """What may be chosen: value and label, by filter."""
        known = registry.all_methods()
        benchmarks = {
            benchmark.slug: benchmark.title
            for method in known
            if self.method in {"", method.slug}
            for benchmark in method.benchmarks
        }
        states = [("open", "waiting or running"), ("ended", "ended")]
        return {
            "method": [(method.slug, method.title) for method in known],
            "benchmark": sorted(benchmarks.items(), key=lambda pair: pair[1]),
            "state": [*states, *((str(s.value), str(s.label)) for s in State)],
            "device": [(d.value, d.label) for d in Device],
        }


@dataclass(frozen=True)
class RunPage:
    """A page of a list, and the key where the next begins ("" on the last): nothing is counted."""

    runs: list[Run]
    next: str

    @classmethod
    def read(cls, runs: QuerySet[Run], after: str, size: int) -> RunPage:
        """At most `size` runs after the key `after`; from the first where it is no key."""
        at, _, pk = after.partition("_")
        try:
            moment, key = parse_datetime(at), UUID(pk)
        except ValueError:
            moment = None
        if moment and moment.tzinfo:
            later = Q(queued_at__lt=moment) | Q(queued_at=moment, pk__gt=key)
            runs = runs.filter(later, queued_at__lte=moment)
        found = list(runs[: size + 1])
        last = found[size - 1] if len(found) > size else None
        return cls(found[:size], f"{last.queued_at.isoformat()}_{last.pk}" if last else "")


def listed_run(run: Run) -> dict[str, Any]:
    """A run as a list shows it."""
    found = present.spec_of(run)
    changed = [p for p in present.parameters_of(run) if p.changed]
    settings = ", ".join(f"{p.name}={p.value}" for p in changed[:3])
    hidden = len(changed) - 3
    word = run.get_failure_display() if run.failure else run.get_state_display()
    return {
        "run": run,
        "title": found[1].title if found else run.benchmark,
        "method": found[0].title if found else run.method,
        "tone": TONES[run.state],
        "icon": ICONS[TONES[run.state]],
        "word": "published" if run.imported else word,
        "took": took(run),
        "hardware": run.environment.hardware if run.environment else "",
        "settings": settings + (f" and {hidden} more" if hidden > 0 else ""),
    }
