"""manage.py fetch: ask arXiv now."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from assay_common.terminal import progress_bar, table
from webapp.digests.daily import categories_to_fetch, update
from webapp.digests.lookup import day
from webapp.papers.models import AnnounceType, Listing

HEADS = ("category", "day", "state", *AnnounceType.values, "refused", "why")


class Command(BaseCommand):
    help = "Fetch today's papers and missed days from arXiv, and build their digests."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--category",
            nargs="+",
            action="extend",
            metavar="C",
            help="arXiv categories, for example cs.CL (default: those of all profiles)",
        )
        parser.add_argument(
            "--since",
            type=day,
            metavar="DATE",
            help="fetch all incomplete days since this one, for example 2026-03-02",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        categories: list[str] = options["category"] or categories_to_fetch()
        with progress_bar() as bar:
            task = bar.add_task("", total=None)

            def show(done: int, total: int, step: str) -> None:
                bar.update(task, completed=done, total=total, description=step)

            try:
                report = update(categories, options["since"], show)
            except ValueError as error:
                raise CommandError(str(error)) from None
        right = (*AnnounceType.values, "refused")
        self.stdout.write(table(HEADS, map(_cells, report.rows), right))
        if report.failed:
            raise CommandError(f"Nothing was fetched: {report.reason}")


def _cells(row: Listing) -> list[str]:
    counts = [str(row.counts.get(name, 0)) for name in AnnounceType.values]
    day = row.date.isoformat()
    return [row.category, day, str(row.state), *counts, str(len(row.problems)), row.reason]
