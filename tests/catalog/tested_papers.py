"""`manage.py tested_papers`: how many papers of the last days can be tested here."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from webapp.catalog.models import MethodLink
from webapp.catalog.paper_methods import PaperMethod
from webapp.catalog.queries import all_carried
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = (
        "Count, over the last days on which papers were announced, the papers linked to a method, "
        "those with its mechanism, with a figure of their mechanism, and with a comparable figure."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, default=30, help="days, default 30")
        parser.add_argument("--json", action="store_true", help="print each linked paper, too")

    def handle(self, *_args: Any, **options: Any) -> None:
        days = Paper.objects.exclude(announced_on=None).order_by("-announced_on")
        dates = list(days.values_list("announced_on", flat=True).distinct()[: options["days"]])
        papers = Paper.objects.filter(announced_on__in=dates)
        carried = {method.method.slug: method for method in all_carried()}
        links = MethodLink.objects.filter(
            MethodLink.counting(), paper__announced_on__in=dates, method__in=carried
        )
        linked, with_mechanism, with_figure, comparable = set(), set(), set(), set()
        for link in links.select_related("paper").order_by("paper__arxiv_id", "method"):
            tested = PaperMethod(link, carried[link.method])
            linked.add(link.paper_id)
            with_mechanism |= {link.paper_id} if tested.mechanism else set()
            with_figure |= {link.paper_id} if tested.figure else set()
            comparable |= {link.paper_id} if tested.comparable else set()
            if options["json"]:
                row = {
                    "id": link.paper.arxiv_id,
                    "title": link.paper.title,
                    "method": link.method,
                    "mechanism": tested.mechanism.slug if tested.mechanism else "",
                    "figure": tested.figure.text if tested.figure else "",
                    "comparable": bool(tested.comparable),
                }
                self.stdout.write(json.dumps(row, ensure_ascii=False))
        self.stdout.write(
            f"{len(dates)} days, {papers.count()} papers: {len(linked)} linked, "
            f"{len(with_mechanism)} with a mechanism, {len(with_figure)} with a figure of it, "
            f"{len(comparable)} comparable"
        )
