"""The list of runs: its filters, from the query string, its pages and lines."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from threading import Lock
from typing import Any
from uuid import UUID

from cachetools import LRUCache
from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.http import QueryDict
from django.utils.translation import gettext

from methods import registry
from webapp.runs.models import ENDED, OPEN, Device, Run, State
from webapp.runs.queries import benchmark_of, method_of
from webapp.runs.texts import in_language
from webapp.runs.web import present
from webapp.runs.web.present import look_of, took
from webapp.ui.language import current_language

GROUPS = {"open": OPEN, "ended": ENDED}  # beside each single state


class RunFilters(forms.Form):
    """The filters of the list; an unknown state or device is ignored."""

    method = forms.CharField(required=False, max_length=64)
    benchmark = forms.CharField(required=False, max_length=64)
    state = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), ("open", "waiting or running"), ("ended", "ended"), *State.choices],
    )
    device = forms.ChoiceField(required=False, choices=[("", "Any"), *Device.choices])
    mine = forms.BooleanField(required=False, label="Mine only")

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query, auto_id="%s")
        methods = registry.all_methods()
        self._offer("method", {installed.slug: installed.title for installed in methods})
        method = query.get("method", "")
        of_method = [installed for installed in methods if installed.slug == method] or methods
        self._offer(
            "benchmark", {b.slug: b.title for of_choice in of_method for b in of_choice.benchmarks}
        )
        self.full_clean()

    def _offer(self, name: str, titles: Mapping[str, str]) -> None:
        choices = [("", "All"), *sorted(titles.items(), key=itemgetter(1))]
        self.fields[name].widget = forms.Select(choices=choices)

    def narrow(self, runs: QuerySet[Run], reader: User | AnonymousUser) -> QuerySet[Run]:
        """The runs that match, the latest first."""
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        if state := chosen.pop("state", ""):
            runs = runs.filter(state__in=GROUPS.get(state, (state,)))
        if chosen.pop("mine", False):
            runs = runs.filter(reader=reader) if reader.is_authenticated else runs.none()
        related = runs.filter(**chosen).select_related("environment", "worker", "reader")
        return related.order_by("-queued_at", "pk")


def page_after(runs: QuerySet[Run], after: str, size: int) -> tuple[list[Run], str]:
    """At most `size` runs after the key `after`, or the first if it is invalid, and the next key.

    The next key is "" on the last page. Nothing is counted.
    """
    time, _, pk = after.partition("_")
    with suppress(ValueError, OverflowError):
        moment, key = datetime.fromisoformat(time).astimezone(UTC), UUID(pk)
        later = Q(queued_at__lt=moment) | Q(queued_at=moment, pk__gt=key)
        runs = runs.filter(later, queued_at__lte=moment)
    rows = list(runs[: size + 1])
    last = rows[size - 1] if len(rows) > size else None
    return rows[:size], f"{last.queued_at.isoformat()}_{last.pk}" if last else ""


def listed_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs of a page, each with the sentence of what it found, if it succeeded."""
    with_result = [run for run in runs if run.state == State.SUCCEEDED and run.preset != "smoke"]
    sentences = _sentences_of(with_result, current_language())
    return [listed_run(run) | {"result": sentences.get(run.pk, "")} for run in runs]


# By run and language: the measurements of a run that succeeded no longer change.
_sentences: LRUCache[tuple[UUID, str], str] = LRUCache(2_000)
_lock = Lock()


def _sentences_of(runs: Sequence[Run], language: str) -> dict[UUID, str]:
    """The first sentence of each run; its series are read once."""
    with _lock:
        sentences = {run.pk: _sentences.get((run.pk, language)) for run in runs}
    anew = [run for run in runs if sentences[run.pk] is None]
    prefetch_related_objects(anew, "series")
    made = {
        run.pk: present.headline(run, [in_language(row.parsed()) for row in run.series.all()])
        for run in anew
    }
    with _lock:
        _sentences.update({(key, language): sentence for key, sentence in made.items()})
    return {key: sentence or made.get(key, "") for key, sentence in sentences.items()}


def listed_run(run: Run) -> dict[str, Any]:
    """A run as a list shows it."""
    method, benchmark = method_of(run), benchmark_of(run)
    local = {info.name for info in benchmark.parameters() if info.local} if benchmark else set()
    changed = [p for p in present.parameters_of(run) if p.changed and p.name not in local]
    settings = ", ".join(f"{p.name}={p.value}" for p in changed[:3])
    hidden = len(changed) - 3
    word = run.get_failure_display() if run.failure else run.get_state_display()
    more = gettext(" and %(hidden)d more") % {"hidden": hidden} if hidden > 0 else ""
    return {
        "run": run,
        "title": benchmark.title if benchmark else run.benchmark,
        "method": method.title if method else run.method,
        **look_of(run, None),
        "word": word,
        "took": took(run),
        "hardware": run.environment.hardware if run.environment else "",
        "settings": settings + more,
    }
