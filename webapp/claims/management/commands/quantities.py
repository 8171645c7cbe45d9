"""`manage.py quantities`: how many quantities several papers report, so can be set side by side."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import Count, Max

from webapp.claims.models import ReportedValue, TableReading
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = "Count the quantities that tables of the papers of the last days report, by papers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, default=30, help="up to the newest paper's day")
        parser.add_argument("--papers", type=int, default=3, help="that a group must have")

    def handle(self, *args: Any, **options: Any) -> None:
        newest = Paper.objects.aggregate(day=Max("announced_on"))["day"]
        if newest is None:
            self.stdout.write("No paper is stored.")
            return
        since = newest - timedelta(days=options["days"] - 1)
        papers = Paper.objects.filter(announced_on__gte=since)
        read = TableReading.objects.filter(paper__in=papers)
        groups = (
            ReportedValue.objects.filter(paper__in=papers)
            .values("benchmark", "metric")
            .annotate(papers=Count("paper", distinct=True), numbers=Count("id"))
            .order_by("-papers", "benchmark", "metric")
        )
        shared = [group for group in groups if group["papers"] >= options["papers"]]
        self.stdout.write(
            f"{since} to {newest}: {papers.count()} papers, tables of "
            f"{read.filter(reason='').count()} read, {groups.count()} quantities; "
            f"{len(shared)} reported by {options['papers']} papers or more"
        )
        for group in shared:
            self.stdout.write(
                f"{group['papers']:4} papers {group['numbers']:5} values  "
                f"{group['metric']}: {group['benchmark']}"
            )
