import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests import databases, forking
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from tests.processes import ROOT
from webapp.digests.build import build
from webapp.digests.lookup import NotFoundError, find_profile
from webapp.digests.models import Profile
from webapp.digests.profiles.validation import site_profile

pytestmark = pytest.mark.django_db


def line(number: int, title: str = "On sparse attention", **fields: Any) -> str:
    return json.dumps(
        {"id": f"2603.{number:05d}", "title": title, "abstract": "Models.", "categories": ["cs.CL"]}
        | {"announce_type": "new"}
        | fields
    )


def score(path: Path, *arguments: str) -> tuple[list[str], str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("score", "--input", str(path), *arguments, stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue().splitlines(), f"{err.getvalue()}{error} ({error.returncode})"
    return out.getvalue().splitlines(), err.getvalue()


def test_lines_are_scored_in_their_order(tmp_path: Path) -> None:
    profile()
    path = tmp_path / "papers.jsonl"
    path.write_text(
        "\n".join(
            [line(2), "", line(1, "Kernels", announce_type="replace", extra=[1]), line(3, "RL")]
        )
    )
    out, err = score(path, "--profile", "mine", "--json")
    assert err == ""
    assert [json.loads(one) for one in out] == [
        {
            "id": "2603.00002",
            "score": 4.0,
            "kept": True,
            "matches": [
                {"keyword": "sparse", "where": ["title"], "points": 1.5},
                {"keyword": "attention", "where": ["title"], "points": 1.5},
                {"keyword": "models", "where": ["abstract"], "points": 1.0},
            ],
        },
        {
            "id": "2603.00001",
            "score": 1.0,
            "kept": False,
            "matches": [{"keyword": "models", "where": ["abstract"], "points": 1.0}],
        },
        {
            "id": "2603.00003",
            "score": 1.0,
            "kept": True,
            "matches": [{"keyword": "models", "where": ["abstract"], "points": 1.0}],
        },
    ]


def test_a_bad_line_costs_only_itself(tmp_path: Path) -> None:
    profile()
    path = tmp_path / "papers.jsonl"
    bad = [
        b"{", b"[]", b"\xff\xfe", b'{"id": "x"}', line(9, announce_type="odd").encode(),
        line(9, categories="cs.CL").encode(), line(9, id=7).encode(), b"[" * 100_000,
    ]  # fmt: skip
    path.write_bytes(b"\n".join([line(1).encode(), *bad, line(2, "\ud800").encode()]))
    out, err = score(path, "--profile", "mine", "--json")
    assert [json.loads(one)["id"] for one in out] == ["2603.00001", "2603.00002"]
    for number in range(2, len(bad) + 2):
        assert f"line {number}: " in err
    assert "title: Field required" in err
    assert err.endswith("8 lines were not scored (1)")


def test_the_table_is_for_people(tmp_path: Path) -> None:
    path = tmp_path / "papers.jsonl"
    path.write_text(line(1, "Fast speculative decoding in wall-clock time"))
    out, _ = score(path)
    assert out[0].split() == ["score", "kept", "id", "why"]
    assert "  speculative decoding +7.8, inference latency +6.9, close to" in out[1]


def test_what_is_unknown_is_named_with_what_comes_near(tmp_path: Path) -> None:
    profile("Sparse attention", slug="sparse-attention")
    _, err = score(tmp_path / "none.jsonl", "--profile", "sparse-atention")
    assert "no feed 'sparse-atention'. Did you mean sparse-attention" in err
    assert err.endswith("(2)")
    _, err = score(tmp_path / "none.jsonl")
    assert "none.jsonl cannot be read: No such file" in err
    assert err.endswith("(2)")


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("digest", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def days() -> Profile:
    mine = profile()
    site_profile()
    announce(
        MONDAY,
        paper(1, r"Sparse \emph{models} [x](javascript:y) <b>"),
        paper(2, "\x1b[31mAttention"),
    )
    announce(TUESDAY, paper(3))
    build([MONDAY, TUESDAY])
    return mine


def test_a_day_is_printed(days: Profile) -> None:
    text = printed("--profile", "mine", "--date", "2026-03-02")
    assert text.startswith("Mine, Monday 2 March 2026\n2 of 2 announced papers.\n")
    assert "  1. Sparse models [x]" in text
    assert "sparse, models" in text
    assert "https://arxiv.org/abs/2603.00001v1" in text
    assert "\x1b" not in text
    assert "2603.00003" in printed("--profile", "Mine")  # by name, the latest
    data = json.loads(printed("--profile", "mine", "--date", "2026-03-02", "--format", "json"))
    assert [(one["rank"], one["id"]) for one in data["entries"]] == [
        (1, "2603.00001"),
        (2, "2603.00002"),
    ]
    assert (data["profile"], data["date"], data["sample"]) == ("mine", "2026-03-02", False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--date", "2026-03-09"], "no digest of 2026-03-09. The nearest: 2026-03-03"),
        (["--date", "2026-02-01", "--profile", "mine"], "The nearest: 2026-03-02"),
        (["--profile", "mime"], "Did you mean mine"),
        (["--profile", "quite another"], "There are: Assay, Mine, mine, site"),
    ],
)
def test_an_unknown_day_or_profile_is_an_error_of_use(
    days: Profile, arguments: list[str], said: str
) -> None:
    with pytest.raises(CommandError, match=said) as caught:
        printed(*arguments)
    assert caught.value.returncode == 2


def test_a_day_that_is_none_is_an_error_of_use(tmp_path: Path) -> None:
    databases.copy_to(tmp_path / "assay.sqlite3")
    done = subprocess.run(
        forking.manage("digest", "--date", "soon"),
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "argument --date: 'soon': write a day as 2026-03-02" in done.stderr


def test_a_profile_without_a_day_says_how_to_get_one() -> None:
    with pytest.raises(CommandError, match=r"no digest yet\. Get papers with: manage\.py fetch"):
        printed()


def test_standard_input_is_read_by_a_real_process(tmp_path: Path) -> None:
    databases.copy_to(tmp_path / "assay.sqlite3")
    done = subprocess.run(
        [sys.executable, "manage.py", "score", "--input", "-", "--json"],
        cwd=ROOT,
        input=(line(1, "Prefill") + "\nbad\n").encode() + b"\xff\xfe\n",
        env={**os.environ, "ASSAY_DATA": str(tmp_path), "ASSAY_VENV": sys.prefix},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[-1])["matches"][0]["keyword"] == "prefill"
    assert b"line 2: is not JSON" in done.stderr
    assert b"line 3: is not UTF-8" in done.stderr


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["site", "Assay", "assay"])
def test_a_new_sites_feed_is_there_by_name(name: str) -> None:
    assert not Profile.objects.exists()
    assert find_profile(name).is_site
    with pytest.raises(NotFoundError, match=r"There is no feed 'sire'\. Did you mean site"):
        find_profile("sire")
