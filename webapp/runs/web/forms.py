"""The form that queues a run, generated from the parameters of a benchmark.

A parameter that is left empty has the preset's value, so presets come first and the rest is folded.
`Benchmark.resolve` validates the texts, as it does for the command line.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from secrets import token_urlsafe
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundWidget
from django.utils.translation import gettext, ngettext

from methods.spec import OFFERED, PRESETS, Benchmark, Method, ParameterError, ParameterInfo
from webapp.core.durations import duration, span
from webapp.runs.models import Device
from webapp.runs.queries import estimates, live_workers
from webapp.runs.submit import MAX_SEED, SECONDS, RunRequest
from webapp.runs.texts import translate_spec

PREFIX = "set-"  # of parameters' fields, so that none collides with the form's own


class RunForm(forms.Form):
    """A preset, a device, a seed, and a field for each parameter."""

    key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    seed = forms.IntegerField(
        min_value=0,
        max_value=MAX_SEED,
        initial=0,
        required=False,
        help_text="The same seed gives the same data.",
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"), f"A seed is a whole number from 0 to {MAX_SEED}."
        ),
    )

    def __init__(self, method: Method, benchmark: Benchmark, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", f"run-{benchmark.slug}-%s")  # several forms on one page
        super().__init__(*args, **kwargs)
        self.method, self.benchmark = method, benchmark
        self.fields["preset"] = _radios((name, name.capitalize()) for name in offered(benchmark))
        devices = [Device.CPU] if "cpu" in benchmark.devices else []
        devices += [Device.GPU] if "cuda" in benchmark.devices else []
        live = Counter(live_workers().values_list("device", flat=True))
        self.live = {device: live[device] for device in devices}
        named = ((d.value, _live(d.label, self.live[d])) for d in devices)
        self.fields["device"] = _radios(named)
        # Preselect a device that has a live worker.
        ready = next((device for device in devices if self.live[device]), devices[0])
        self.initial.setdefault("preset", offered(benchmark)[0])
        self.initial.setdefault("device", ready.value)
        self.initial.setdefault("key", token_urlsafe(24))
        for info in benchmark.parameters():
            # Local parameters are not offered; `resolve` refuses them anyway.
            if not info.local and (settings.RUN_MODELS or not info.model):
                self.fields[PREFIX + info.name] = _field(info, benchmark)

    def clean(self) -> dict[str, Any]:
        """Validate the parameters by the benchmark's own model; add errors to their fields."""
        data = super().clean() or {}
        if "preset" in data:
            try:
                self.benchmark.resolve(
                    data["preset"],
                    self.settings,
                    models=settings.RUN_MODELS,
                    device=data.get("device", "cpu"),
                )
            except ParameterError as error:
                parameters = {info.name: info for info in self.benchmark.parameters()}
                for problem in error.problems:
                    name = PREFIX + problem.name
                    place = name if name in self.fields else None
                    info = parameters.get(problem.name) if problem.allowed else None
                    self.add_error(place, _refusal(info, problem.reason, problem.given))
        return data

    @property
    def settings(self) -> dict[str, object]:
        """The parameters that differ from the preset, as texts."""
        return {
            name.removeprefix(PREFIX): text
            for name, text in self.cleaned_data.items()
            if name.startswith(PREFIX) and text != ""
        }

    def request(self) -> RunRequest:
        """The valid form as a request."""
        data = self.cleaned_data
        values = {name: data[name] for name in ("preset", "device")}
        values |= {"method": self.method.slug, "benchmark": self.benchmark.slug}
        return RunRequest(params=self.settings, seed=data["seed"] or 0, **values)

    # --- For the template ---------------------------------------------------------------------

    def presets(self) -> list[tuple[BoundWidget, dict[str, Any]]]:
        """The presets with their time limits and the durations of past runs."""
        past = estimates(self.method.slug, self.benchmark.slug)
        return [(radio, self._preset(str(radio.data["value"]), past)) for radio in self["preset"]]

    def parameters(self) -> list[forms.BoundField]:
        """The fields of the parameters, in order."""
        return [self[name] for name in self.fields if name.startswith(PREFIX)]

    @property
    def opened(self) -> bool:
        """True if the parameters start unfolded: one has an error or a value."""
        is_set = any(self.data.get(name) for name in self.fields if name.startswith(PREFIX))
        return bool(self.errors) or is_set

    def _preset(self, name: str, past: Mapping[tuple[str, str], float]) -> dict[str, Any]:
        took = [
            gettext("about %(time)s on a %(device)s")
            % {"time": duration(max(1, past[name, device])), "device": device.label}
            for device in self.live
            if (name, device) in past
        ]
        limit = span(SECONDS[name])
        return {"name": name, "about": PRESETS[name], "limit": limit, "estimates": took}


def offered(benchmark: Benchmark) -> list[str]:
    """The presets that readers choose from, the quickest first."""
    return [name for name in OFFERED if name in benchmark.presets]


def _radios(choices: Iterable[tuple[str, str]]) -> forms.ChoiceField:
    return forms.ChoiceField(choices=list(choices), widget=forms.RadioSelect)


def _live(device: str, workers: int) -> str:
    if not workers:
        message = gettext("%(device)s: no worker is connected, so the run would wait")
    else:
        message = ngettext(
            "%(device)s: %(number)d worker is connected",
            "%(device)s: %(number)d workers are connected",
            workers,
        )
    return message % {"device": device, "number": workers}


def _refusal(info: ParameterInfo | None, reason: str, given: str) -> str:
    """Return what is allowed, else why a value is refused, and what was given."""
    if info:
        texts = {"allowed": info.allowed(translate_spec), "given": given}
        return gettext("Allowed: %(allowed)s. You gave %(given)s.") % texts
    text = translate_spec(reason)
    texts = {"reason": text[:1].upper() + text[1:].rstrip("."), "given": given}
    return gettext("%(reason)s. You gave %(given)s.") % texts


def _field(info: ParameterInfo, benchmark: Benchmark) -> forms.Field:
    """An optional field; only pydantic validates its value."""
    common: dict[str, Any] = {
        "required": False,
        "label": info.name,
        "help_text": _help(info, benchmark),
    }
    preset = gettext("as in the preset")
    offered = settings.RUN_MODELS if info.model else info.choices
    choices = [(str(value), str(value)) for value in offered]
    if info.kind == "boolean":
        choices = [("true", gettext("yes")), ("false", gettext("no"))]
    if choices and not info.many:
        return forms.ChoiceField(choices=[("", preset), *choices], **common)
    mode = "numeric" if info.kind == "integer" and not info.many else "text"
    widget = forms.TextInput(
        attrs={"inputmode": mode, "placeholder": preset, "autocomplete": "off"}
    )
    return forms.CharField(max_length=2_000, widget=widget, **common)


def _help(info: ParameterInfo, benchmark: Benchmark) -> str:
    """`Heads … Integer from 1 to 64. Presets: 8.`"""
    allowed = info.allowed(translate_spec) + (f", {info.unit}" if info.unit else "")
    sizes = {name: benchmark.presets[name] for name in offered(benchmark)}
    sizes |= {gettext("full on a GPU"): benchmark.gpu} if benchmark.gpu else {}
    shown = {name: written(getattr(p, info.name)) or "–" for name, p in sizes.items()}
    if len(set(shown.values())) == 1:
        presets = gettext("All presets: %s") % next(iter(shown.values()))
    else:
        presets = "; ".join(f"{name}: {value}" for name, value in shown.items())
    return f"{translate_spec(info.help)} {allowed[:1].upper()}{allowed[1:]}. {presets}."


def written(value: object) -> str:
    """A parameter's value as `--set name=value` takes it: `256,1024`, `true`, `0.5`."""
    if isinstance(value, tuple | list):
        texts = [written(item) for item in value]
        if any("," in text or not text.strip() for text in texts):
            return json.dumps(list(value))
        return ",".join(texts)
    return value if isinstance(value, str) else json.dumps(value)
