"""The local model server, started as docs/models.md says, answers whatever it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest

from tests.processes import ROOT
from webapp.summaries.capability import response_format
from webapp.summaries.schema import PaperSummary, strict_schema

FENCE = "=" * 20
TEXTS = {
    "a word": "Figure",
    "short sentences": "We prune. It is fast. No loss.",
    "no stop": "a title without a stop that goes on for more than six words",
    "an abstract": "We propose a pruner that keeps 40% of all tokens. It is 1.8 times as fast.",
    "a fence within": f"Before.\n{FENCE}\nA sentence of some more words between two fences.",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    line = [sys.executable, "-m", "tests.servers.openai", "--port", "0", "--scenario", "good"]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        yield started.stdout.readline().strip().removeprefix("OPENAI_BASE_URL=")
        started.terminate()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("mode", ["schema", "object", "prompt"])
def test_a_good_answer_is_a_summary_of_any_text(address: str, text: str, mode: str) -> None:
    asked = f"Answer with json.\n{FENCE}\n{text}\n{FENCE}\n"
    body = {"model": "m", "messages": [{"role": "user", "content": asked}]}
    if form := response_format(mode, strict_schema(), "summary"):
        body |= {"response_format": form}
    answer = httpx2.post(f"{address}/chat/completions", json=body, timeout=None).json()
    content = json.loads(answer["choices"][0]["message"]["content"])
    assert PaperSummary.model_validate(content).gist
