"""Each command that a document names exists, and has the options that the document gives it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.processes import ROOT

COMMAND = re.compile(r"python3? (-m (?:tests|benchmarks|methods)[\w.]*|manage\.py \w+)([^`\n|]*)")
# Their options are their own affair: a launcher's, or a sub-command's.
OTHERS = {"-m methods", "manage.py methods", "manage.py test"}


def named() -> dict[str, set[str]]:
    """Return the commands of docs/, each with all options that it is given somewhere."""
    options: dict[str, set[str]] = defaultdict(set)
    for document in sorted((ROOT / "docs").glob("*.md")):
        for command, rest in COMMAND.findall(document.read_text()):
            options[command.rstrip(".")] |= set(re.findall(r"(?<!\S)--[a-z-]+", rest))
    return {command: given for command, given in options.items() if command not in OTHERS}


NAMED = named()


@pytest.mark.slow
@pytest.mark.parametrize("command", NAMED)
def test_a_command_of_the_documents_has_its_options(command: str) -> None:
    done = subprocess.run(
        [sys.executable, *command.split(), "--help"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    missing = {option for option in NAMED[command] if option not in done.stdout}
    assert missing - {"--data"} == set()  # manage.py takes it for each command
