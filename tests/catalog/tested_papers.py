"""Count the papers of the last days that are linked, with a mechanism, and with a figure of it.

python -m tests.catalog.tested_papers --days 30 [--json]
"""

import argparse
import json
import os

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()

from webapp.catalog.models import MethodLink
from webapp.catalog.paper_methods import PaperMethod
from webapp.catalog.queries import all_carried
from webapp.papers.models import Paper


def main(days: int, as_json: bool) -> None:
    """Print each linked paper, if asked to, and the counts."""
    announced = Paper.objects.exclude(announced_on=None).order_by("-announced_on")
    dates = list(announced.values_list("announced_on", flat=True).distinct()[:days])
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
        if as_json:
            row = {
                "id": link.paper.arxiv_id,
                "title": link.paper.title,
                "method": link.method,
                "mechanism": tested.mechanism.slug if tested.mechanism else "",
                "figure": tested.figure.text if tested.figure else "",
                "comparable": bool(tested.comparable),
            }
            print(json.dumps(row, ensure_ascii=False))
    print(
        f"{len(dates)} days, {papers.count()} papers: {len(linked)} linked, "
        f"{len(with_mechanism)} with a mechanism, {len(with_figure)} with a figure of it, "
        f"{len(comparable)} comparable"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print each linked paper, too")
    options = parser.parse_args()
    main(options.days, options.json)
