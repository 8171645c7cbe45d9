"""``describe``: a method, the claims of its source, its benchmarks and their parameters."""

import argparse
import dataclasses
import json
import sys
import textwrap
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from assay_common.quantities import number
from assay_common.terminal import table

from .. import registry
from ..spec import Benchmark, Claim, Method

HELP = "describe a method, its claims and its benchmarks"
_WIDTH = 100
_METHOD = TypeAdapter(Method)
_short = partial(textwrap.shorten, width=60, placeholder=" …")
_LEFT_OUT: Any = {
    **dict.fromkeys(("family", "commands", "example"), True),
    "claims": {"__all__": {"counted"}},
    "benchmarks": {"__all__": {"params", "presets", "gpu", "entry", "memory"}},
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method's name and ``--json``."""
    parser.add_argument("method", metavar="METHOD")
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def main(args: argparse.Namespace) -> int:
    """Print the description."""
    method = registry.get(args.method)
    text = json.dumps(as_dict(method), indent=2) if args.json else in_words(method)
    sys.stdout.write(text + "\n")
    return 0


def as_dict(method: Method) -> dict[str, Any]:
    """The specification as plain JSON values, parameters as JSON Schema."""
    described: dict[str, Any] = _METHOD.dump_python(method, mode="json", exclude=_LEFT_OUT)
    for claim, plain in zip(method.claims, described["claims"], strict=True):
        plain["counted"] = dataclasses.asdict(claim.counted()) if claim.counted else None
    for benchmark, plain in zip(method.benchmarks, described["benchmarks"], strict=True):
        sizes = benchmark.sized_presets().items()
        plain["presets"] = {name: preset.model_dump(mode="json") for name, preset in sizes}
        plain["parameters"] = benchmark.params.model_json_schema()
    return described


def in_words(method: Method) -> str:
    """The specification for reading."""
    parts = [method.title, textwrap.fill(method.description, _WIDTH)]
    if method.papers:
        rows = [(f"arXiv:{paper.arxiv_id}", paper.role, paper.title) for paper in method.papers]
        parts.append(table(("paper", "role", "title"), rows))
    if method.claims:
        claims = [
            (claim.id, _short(claim.text), _claimed(claim), str(claim.comparable))
            for claim in method.claims
        ]
        parts.append(table(("claim", "the source says", "value", "comparable"), claims))
    if method.checks:
        checks = [(check.name, check.title, check.bound) for check in method.checks]
        parts.append(table(("check", "what", "bound"), checks))
    return "\n\n".join([*parts, *(_benchmark(method, found) for found in method.benchmarks)])


def _benchmark(method: Method, benchmark: Benchmark) -> str:
    rows, sizes = [], benchmark.sized_presets()
    for info in benchmark.parameters():
        unit = f" ({info.unit})" if info.unit else ""
        presets = [_value(getattr(preset, info.name)) for preset in sizes.values()]
        rows.append((info.name, info.help + unit, info.allowed(), *presets))
    title = f"{method.slug}.{benchmark.slug} — {benchmark.title}"
    parameters = table(("parameter", "help", "allowed", *sizes), rows)
    return "\n".join([title, textwrap.fill(benchmark.description, _WIDTH), parameters])


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _claimed(claim: Claim) -> str:
    if claim.value is None:
        return ""
    span = number(claim.value) + (f" – {number(claim.upper)}" if claim.upper is not None else "")
    return f"{span} {claim.unit}".strip()
