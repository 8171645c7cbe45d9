"""`manage.py summarise`: make summaries now, with a progress bar."""

import os
from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from assay_common.terminal import progress_bar
from webapp.papers.models import Paper
from webapp.papers.queries import announced_on, dates
from webapp.summaries import queue
from webapp.summaries.client import Server
from webapp.summaries.models import Summary
from webapp.summaries.summarise import summarise


class Command(BaseCommand):
    help = "Summarise the papers of a day, or single papers, and print the outcome of each."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--date", type=date.fromisoformat, help="a day, for example 2025-12-18")
        which.add_argument("--paper", action="append", metavar="ID", help="an arXiv id; repeatable")
        parser.add_argument("--model", help="use this instead of ASSAY_SUMMARY_MODEL")
        parser.add_argument("--language", choices=Summary.Language.values, default="en")
        parser.add_argument("--retry", action="store_true", help="retry failed summaries")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["model"]:
            os.environ["ASSAY_SUMMARY_MODEL"] = options["model"]
        server = Server.configured()
        if server is None:
            raise CommandError(
                "No model is connected. Set ASSAY_SUMMARY_MODEL (and OPENAI_BASE_URL, "
                "OPENAI_API_KEY), connect one at /connections/, or give --model: docs/models.md.",
                returncode=2,
            )
        papers = self._papers(options["paper"], options["date"])
        queue.request(papers, options["language"], server)
        rows = queue.asked(papers, options["language"], server)
        if options["retry"]:
            queue.retry(rows)
        waiting = list(rows.filter(state=Summary.State.WAITING).values_list("id", flat=True))
        with progress_bar() as bar:
            for summary_id in bar.track(waiting, description="summarised"):
                summarise(summary_id)
        self._report(rows)

    def _papers(self, ids: list[str] | None, day: date | None) -> list[Paper]:
        if ids:
            papers = Paper.objects.filter(arxiv_id__in=ids)
            if missing := set(ids) - set(papers.values_list("arxiv_id", flat=True)):
                raise CommandError(
                    f"No such paper on this site: {', '.join(sorted(missing))}. "
                    "Fetch its day first: manage.py fetch --since DATE.",
                    returncode=2,
                )
            return list(papers)
        if day is None and (day := max(dates(1), default=None)) is None:
            raise CommandError("No papers yet: manage.py fetch gets them.", returncode=2)
        announced_papers = [announced.paper for announced in announced_on(day)]
        if not announced_papers:
            raise CommandError(f"No papers were announced on {day}.", returncode=2)
        return announced_papers

    def _report(self, rows: QuerySet[Summary]) -> None:
        failed = 0
        for row in rows.select_related("paper").order_by("paper__arxiv_id"):
            failed += row.state == Summary.State.FAILED
            doubt = f"{row.unverified} not found in the text" if row.unverified else ""
            self.stdout.write(f"{row.paper}  {row.state:8}{row.reason or doubt}".rstrip())
        if failed:
            raise CommandError(f"{failed} failed; --retry tries them again.")
