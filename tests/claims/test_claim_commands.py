"""`extract_claims` as a person runs it, without a database."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.claims.report import Score, scores

TEXT = "We present a cache. It is 3.5\u00d7 faster on 8 GPUs and needs 16 ms instead of 38 ms."


def run(command: str, *arguments: object) -> str:
    out = StringIO()
    call_command(command, *map(str, arguments), stdout=out)
    return out.getvalue()


def lines(path: Path, *objects: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return path


def test_claims_are_printed_with_their_offsets(tmp_path: Path) -> None:
    papers = lines(tmp_path / "in.jsonl", {"id": "2512.00001", "title": "A", "abstract": TEXT})
    said = json.loads(run("extract_claims", "--input", papers, "--json"))
    assert said["id"] == "2512.00001"
    (faster, less) = said["quotes"]
    assert faster["quote"] == "It is 3.5\u00d7 faster on 8 GPUs"
    assert less["quote"] == "needs 16 ms instead of 38 ms."
    spans = [TEXT[n["start"] : n["end"]] for quote in said["quotes"] for n in quote["numbers"]]
    assert spans == ["3.5\u00d7", "16 ms", "38 ms"]
    assert [n["kind"] for n in less["numbers"]] == ["time", "time"]
    assert "3.5\u00d7" in run("extract_claims", "--input", papers)


def test_the_report_counts_against_what_a_person_marked(tmp_path: Path) -> None:
    start = TEXT.index("3.5")
    texts = lines(tmp_path / "in.jsonl", {"id": "2512.00001", "abstract": TEXT})
    marked = {"id": "2512.00001", "claims": [[start, start + 4], [0, 2]], "optional": [[57, 70]]}
    other = {"id": "2512.00002", "claims": [], "drawn": 2}
    counted = scores(texts, lines(tmp_path / "marked.jsonl", marked, other))
    assert counted == {1: Score(abstracts=1, found=1, invented=1, missed=1)}
    assert "recall 0.500" in str(counted[1])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "line 1: is not JSON"),
        ("[]", "line 1: the line: Input should be an object"),
        ("{}", "line 1: .*Field required"),
        ('{"id": NaN, "abstract": "", "text": "", "claims": []}', "line 1: is not JSON"),
        ('{"id": 1e999, "abstract": "", "text": "", "claims": []}', "line 1: is not JSON"),
        pytest.param("x" * ((4 << 20) + 1), "line 1: is longer than", id="too long"),
        pytest.param("\n\n" + "[" * 100_000, "line 3: ", id="nested"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(content)
    with pytest.raises(CommandError, match=why):
        run("extract_claims", "--input", path)
    with pytest.raises(CommandError, match="cannot be read"):
        run("extract_claims", "--input", tmp_path / "missing.jsonl")
