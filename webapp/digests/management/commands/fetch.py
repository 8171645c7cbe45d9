"""manage.py fetch: ask arXiv now."""

from __future__ import annotations

import shutil
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.digests.daily import categories_to_fetch, update
from webapp.papers.entries import is_category
from webapp.papers.models import AnnounceType
from webapp.papers.polling import FetchReport, PollResult
from webapp.papers.schedule import Progress

_BAR = 24  # characters


class Command(BaseCommand):
    help = "Fetch today's papers and missed days from arXiv, and build their digests."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--category",
            nargs="+",
            action="extend",
            metavar="C",
            help="arXiv categories, for instance cs.CL (default: those of all profiles)",
        )
        parser.add_argument(
            "--since",
            type=_day,
            metavar="DATE",
            help="fetch every incomplete day from this one on, for instance 2026-03-02",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        categories: list[str] = options["category"] or categories_to_fetch()
        for name in categories:
            if not is_category(name):
                raise CommandError(f"{name!r} is no arXiv category; write for instance cs.CL")
        on_terminal = self.stderr.isatty()
        report = update(categories, options["since"], self._draw if on_terminal else None)
        if on_terminal:
            self.stderr.write("\r\033[K", ending="")
        self.stdout.write("\n".join(table(report)))
        if report.failed:
            raise CommandError(f"Nothing was fetched: {report.reason}")

    def _draw(self, progress: Progress) -> None:
        filled = _BAR * progress.done // max(progress.total, 1)
        line = f"{'█' * filled:·<{_BAR}} {progress.done}/{progress.total}  {progress.step}"
        width = shutil.get_terminal_size().columns - 1
        self.stderr.write(f"\r\033[K{line[:width]}", ending="")
        self.stderr.flush()


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--since {text!r}: write a day as 2026-03-02") from None


def table(report: FetchReport) -> list[str]:
    """The report as lines of aligned columns."""
    heads = ["category", "day", "state", *AnnounceType.values, "refused", "why"]
    rows = [heads, *(_cells(row) for row in report.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads) - 1)]
    return ["  ".join([*_aligned(row, widths), row[-1]]).rstrip() for row in rows]


def _aligned(row: list[str], widths: list[int]) -> list[str]:
    """Words to the left, numbers to the right."""
    return [
        cell.ljust(width) if column < 3 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False))
    ]


def _cells(row: PollResult) -> list[str]:
    counts = [str(row.counts.get(name, 0)) for name in AnnounceType.values]
    day = row.date.isoformat()
    return [row.category, day, str(row.state.value), *counts, str(row.problems), row.reason]
