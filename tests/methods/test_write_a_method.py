"""The page on writing a method is followed to the letter."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from methods.protocol import Result, Series
from tests.methods.conftest import Done, lines
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "write-a-method.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
OURS = PAGE[PAGE.index("## 1. ") : PAGE.index("## A package of your own")]  # the skeleton: test_new
COMMANDS = re.findall(r"^\$ python -m methods (.+)$", OURS, re.MULTILINE)
# A busy machine never looks steady: each variant of each process would warm up for three seconds.
AT_ONCE = ("--set", "processes=2", "--set", "max_warm_up_s=0")


def test_the_pages_own_example_runs_as_it_stands(cli: Callable[..., Done], tmp_path: Path) -> None:
    assert set(FILES) == {
        f"low_rank/{name}.py" for name in ("__init__", "spec", "model", "checks", "bench")
    }
    assert {command.split()[0] for command in COMMANDS} == {"describe", "check", "run"}
    roots = tmp_path / "roots"
    for name, code in FILES.items():
        path = roots / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    for command in COMMANDS:
        more = AT_ONCE if command.startswith("run ") else ()
        done = cli(*shlex.split(command), *more, roots=roots)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "plots" / "low_rank.latency-forward-ratio.svg").is_file()
    events = lines((tmp_path / "result.jsonl").read_text())
    assert isinstance(events[-1].body, Result)
    (series,) = (event.body for event in events if isinstance(event.body, Series))
    assert {point.x for point in series.points} == {128, 256}


FOR_THE_RUNNER = {"release", "adopt", "relay"}


def test_the_page_names_every_exit_code_and_the_whole_context() -> None:
    from methods.context import Context
    from methods.runner import EXIT_CHECK, EXIT_ERROR, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK

    for code in (EXIT_OK, EXIT_CHECK, EXIT_INPUT, EXIT_ERROR, EXIT_INTERRUPTED):
        assert f"\n| {code} | " in PAGE
    public = {name for name in vars(Context) if not name.startswith("_")} - FOR_THE_RUNNER
    assert all(f"`ctx.{name}(" in PAGE for name in public)
