"""``python -m methods``: what it prints, writes and answers."""

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay_common.files import write_whole
from methods import registry
from methods.protocol import Cancelled, CheckResult, Failed, Line, Result, Series, Started
from methods.spec import Case
from tests.methods.conftest import Done, command, environment, lines

Cli = Callable[..., Done]


def test_list_names_every_benchmark(cli: Cli) -> None:
    done = cli("list")
    assert done.returncode == 0
    assert "toy.right" in done.stdout


def test_describe_in_words_and_as_json(cli: Cli) -> None:
    words = cli("describe", "toy")
    assert "toy.right" in words.stdout
    assert "integer from 1 to 64" in words.stdout
    told = json.loads(cli("describe", "toy", "--json").stdout)
    assert told["benchmarks"][0]["parameters"]["properties"]["n"]["maximum"] == 64
    assert told["benchmarks"][0]["presets"]["smoke"] == {"n": 2}


def test_check_prints_the_table_and_fails_with_a_check(cli: Cli) -> None:
    done = cli("check", "toy")
    assert done.returncode == 1
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert rows["sums"].endswith("passed")
    assert all(rows[name].endswith("FAILED") for name in ("broken", "empty", "wrong"))
    assert "3 (three) of 3" in rows["wrong"]
    assert "FAILED  wrong (three): 3 <= 1" in done.stdout
    assert "ArithmeticError: no such sum" in done.stdout
    assert "it measured nothing" in done.stdout
    assert "1 of 4 checks passed" in done.stdout
    assert cli("check", "toy", "--only", "sums").returncode == 0


def test_run_prints_a_table_and_nothing_of_the_bar_without_a_terminal(cli: Cli) -> None:
    done = cli("run", "toy.right", "--preset", "smoke", "--set", "n=3")
    assert done.returncode == 0
    # Three lengths are three comparisons: each interval is wider than one alone (1.99 – 2.11).
    assert "2.05× (1.97 – 2.13)  faster" in done.stdout
    assert "geometric mean of 6 processes; 95 % intervals (Student) of 3 that" in done.stdout
    assert "1 checks passed" in done.stdout
    assert "█" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "at 3" in done.stderr


def test_events_stream_as_lines_that_nothing_else_disturbs(cli: Cli) -> None:
    done = cli("run", "toy.right", "--preset", "smoke", "--json", "-", "--seed", "7")
    events = lines(done.stdout)
    assert [event.seq for event in events] == list(range(len(events)))
    started, result = events[0].body, events[-1].body
    assert isinstance(started, Started)
    assert (started.params, started.seed, started.device) == ({"n": 2}, 7, "cpu")
    assert isinstance(result, Result)
    assert result.series == ("speed",)
    (series,) = (event.body for event in events if isinstance(event.body, Series))
    assert not series.partial
    kinds = [event.kind for event in events]
    assert {"check", "progress", "log", "artefact"} <= set(kinds)
    assert kinds.index("series") > max(k for k, kind in enumerate(kinds) if kind == "check")
    assert "a library that talks" in done.stderr


def test_a_file_and_charts_are_kept(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "toy.right", "--preset", "smoke", "--json", "out.jsonl", "--plots", "plots")
    assert done.returncode == 0
    kinds = [event.kind for event in lines((tmp_path / "out.jsonl").read_text())]
    assert kinds[0] == "started"
    assert kinds[-1] == "result"
    assert "progress" not in kinds
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "toy.right-note.txt",
        "toy.right-speed-ratio.svg",
        "toy.right-speed.svg",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"measured")
    assert os.read(reader, 100) == b"measured"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_failed_check_shows_no_number(cli: Cli) -> None:
    done = cli("run", "toy.wrong", "--json", "-")
    assert done.returncode == 1
    events = lines(done.stdout)
    assert [event.kind for event in events] == ["started", "check", "check", "failed"]
    check, failed = events[2].body, events[3].body
    assert isinstance(check, CheckResult)
    assert (check.passed, check.measured) == (False, None)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.partial) == ("check", False)
    words = cli("run", "toy.wrong")
    assert "estimate" not in words.stdout
    assert "no numbers" in words.stderr


@pytest.mark.parametrize(
    ("benchmark", "code", "end"),
    [
        ("raising", 3, ("error", True, "ArithmeticError: the method's own error")),
        ("silent", 3, ("error", False, "without having measured anything")),
        ("unchecked", 1, ("check", False, "checks its results before it measures")),
        ("exhausted", 2, ("memory", True, "can't allocate memory")),
    ],
)
def test_every_other_end_has_its_code(
    cli: Cli, benchmark: str, code: int, end: tuple[str, bool, str]
) -> None:
    kind, partial, said = end
    done = cli("run", f"toy.{benchmark}", "--json", "-")
    assert done.returncode == code
    events = lines(done.stdout)
    failed = events[-1].body
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.partial) == (kind, partial)
    assert said in failed.message
    assert [e.body.partial for e in events if isinstance(e.body, Series)] == [True] * partial
    assert bool(failed.detail) is (kind == "error")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "toy.rihgt"), "did you mean 'right'?"),
        (("run", "tyo.right"), "did you mean 'toy'?"),
        (("run", "toy.right", "--preset", "smok"), "did you mean 'smoke'?"),
        (("run", "toy.right", "--set", "n=65"), "n: Input should be less than or equal to 64"),
        (("run", "toy.right", "--set", "n"), "not a setting"),
        (("run", "toy.right", "--set", "n=1", "--set", "n=2"), "given twice"),
        (("run", "toy.right", "--set", "n=nan"), "given 'nan'"),
        (("run", "toy.right", "--seed", "-1"), "given '-1'"),
        (("run", "toy.right", "--seed", "1e9"), "not a seed"),
        (("run", "toy.hungry"), "about 4194304.0 GiB are needed on cpu"),
        (("run", "toy.right", "--json", "no/such/folder/x.jsonl"), "existing folder"),
        (("run", "toy.right", "--plots", "/dev/null/x"), "is not a folder"),
        (("run", "toy.right", "--device", "tpu"), "invalid choice: 'tpu'"),
        (("describe", "tou"), "did you mean 'toy'?"),
        (("check", "toy", "--only", "sum"), "did you mean 'sums'?"),
        (("measure",), "invalid choice"),
        ((), "COMMAND"),
    ],
)
def test_wrong_input_is_explained_and_leaves_nothing_behind(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    keep = ()
    if "run" in arguments and not {"--json", "--plots"} & set(arguments):
        keep = ("--json", "kept.jsonl", "--plots", "plots")
    done = cli(*arguments, *keep)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there_is_wrong_input(cli: Cli) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = cli("run", "toy.right", "--device", "cuda")
    assert (done.returncode, "torch sees no CUDA device" in done.stderr) == (2, True)
    done = cli("run", "toy.gpu_only", "--json", "-")
    assert done.returncode == 2
    (failed,) = lines(done.stdout)
    assert isinstance(failed.body, Failed)
    assert failed.body.kind == "input"


def test_a_refusal_for_memory_says_so_to_the_program_that_asked(cli: Cli) -> None:
    (failed,) = lines(cli("run", "toy.hungry", "--json", "-").stdout)
    assert isinstance(failed.body, Failed)
    assert failed.body.kind == "memory"


def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    process = subprocess.Popen(
        command("run", "toy.endless", "--device", "cpu", "--json", kept),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "measuring" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)  # Ctrl-C alike: test_interrupts.py
    out, err = process.communicate()
    assert process.returncode == 130
    assert "PARTIAL" in out
    assert "cancelled" in err
    events = lines(kept.read_text())
    assert [event.kind for event in events] == ["started", "check", "log", "series", "cancelled"]
    series, cancelled = events[3].body, events[4].body
    assert isinstance(series, Series)
    assert series.partial
    assert isinstance(cancelled, Cancelled)
    assert cancelled.partial


def test_an_interrupted_table_of_checks_tells_what_was_checked(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def load(method: str, entry: str) -> Callable[[str], Iterator[Case]]:
        def cases(device: str) -> Iterator[Case]:
            begun.append(entry)
            if len(begun) == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            yield Case(measured=0.0, bound=1.0)

        return cases

    monkeypatch.setattr(registry, "load", load)
    done = cli("check", "seps", "--device", "cpu")
    assert done.returncode == 130
    assert "1 of 11 checks passed" in done.stdout
    assert done.stdout.count("interrupted before it ended") == 20  # in the table and below it


def test_a_reader_that_goes_away_ends_the_run_quietly() -> None:
    process = subprocess.Popen(
        command("run", "toy.right", "--device", "cpu", "--json", "-"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_terminal_sees_a_bar_with_the_time_left() -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command("run", "toy.right", "--device", "cpu", "--set", "n=5"),
        env={**environment(), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=follower,
    )
    os.close(follower)
    seen = b""
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:  # the other end has closed
        pass
    finally:
        os.close(leader)
    process.communicate()
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    bars = [part for part in re.split("[\r\n]", text) if "━" in part]
    assert any(" left n = " in bar for bar in bars)
    assert all(len(bar) <= 80 for bar in bars)


@pytest.mark.parametrize("arguments", [("list",), ("run", "toy.right", "--device", "cpu")])
def test_what_needs_no_torch_loads_none(arguments: tuple[str, ...]) -> None:
    """Listing answers at once; a run of a method without torch starts three times as fast."""
    code = f"import sys; from methods.__main__ import main; main({arguments}); print(*sys.modules)"
    begun = os.times()
    done = subprocess.run(
        [command()[0], "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    heavy = {"torch", "django"} | ({"numpy"} if arguments == ("list",) else set())
    assert not heavy & set(done.stdout.split())
    ended = os.times()
    spent = ended.children_user + ended.children_system
    assert spent - begun.children_user - begun.children_system < 5


def test_torch_that_comes_too_late_to_be_seeded_is_an_error() -> None:
    done = subprocess.run(
        command("run", "toy.late", "--device", "cpu"),
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "import torch at the head of its module" in done.stderr


def test_a_line_is_what_the_protocol_says() -> None:
    line = Line(seq=0, kind="cancelled", body=Cancelled())
    assert json.loads(line.dump()) == {
        "body": {"partial": False, "reason": ""},
        "kind": "cancelled",
        "seq": 0,
        "v": 1,
    }
