"""A command's output on a terminal: a bar of its steps, and tables."""

import sys
from collections.abc import Iterable, Sequence
from io import StringIO

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

WIDE = 1000  # columns: a table in a file or a pipe is not cut


def progress_bar() -> rich.progress.Progress:
    """A bar of steps on standard error that vanishes at its end; silent where that is no terminal.

    The description of a task is shown as it is: no markup is looked for in it.
    """
    return rich.progress.Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> str:
    """Columns under their heads, those named in `right` right-aligned; no text is markup."""
    numbers = set(right)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        made.add_column(Text(head), justify="right" if head in numbers else "left", no_wrap=True)
    for row in rows:
        made.add_row(*map(Text, row))
    console = Console(file=StringIO(), width=WIDE, color_system=None)
    with console.capture() as text:
        console.print(made)
    return "\n".join(line.rstrip() for line in text.get().splitlines())
