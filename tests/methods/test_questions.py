"""Each method's question is answered by its quick run, with an interval and its control.

The presets as readers run them are measured beside the site (benchmarks/README.md): here each is
made small, since the sentence on the page does not depend on sizes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from methods import registry
from webapp.runs.models import Run
from webapp.runs.results import import_file
from webapp.runs.web.present import headline

ROOT = Path(registry.__file__).parents[1]
SECONDS = 300  # after which the site ends a quick run
# Fewer than five processes, or three seeds, have no interval.
_TIMED = ("processes=5", "seconds=0", "max_warm_up_s=0")
SMALL = {
    "concept_lm": (*_TIMED, "d=64", "contexts=64"),
    "seps": ("steps=4", "judged=16", "seeds=3"),
    "sparse_attention": (*_TIMED, "lengths=512", "d_head=16"),
    "token_pruning": (*_TIMED, "size=tiny", "text=8"),
}


def test_every_method_has_a_question() -> None:
    assert [method.slug for method in registry.all_methods() if method.question is None] == []


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("slug", registry.slugs())
def test_the_quick_run_answers_the_question(slug: str, tmp_path: Path) -> None:
    question = registry.get(slug).question
    assert question is not None
    file = tmp_path / "quick.jsonl"
    name = f"{slug}.{question.benchmark}"
    command = [sys.executable, "-m", "methods", "run", name, "--preset", "quick"]
    command += ["--device", "cpu", "--json", str(file)]
    command += [word for setting in SMALL.get(slug, ()) for word in ("--set", setting)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=SECONDS)
    assert import_file(file)
    run = Run.objects.get()
    series = {row.name: row.parsed() for row in run.series.all()}
    measured = {point.variant for point in series[question.series].points}
    assert {question.variant, question.control} <= measured
    sentence = headline(run, series.values())
    assert re.search(r"95 % interval [\d.]+ to [\d.]+|No difference in", sentence), sentence
    assert "not measured" not in sentence
