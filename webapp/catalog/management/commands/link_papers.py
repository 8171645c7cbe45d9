"""`manage.py link_papers`: link papers to methods; with --input it needs no database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.catalog import chips, corrections, evidence, labels, linking
from webapp.catalog.labels import Label, Text
from webapp.core.json_lines import read_lines
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = (
        "Link every paper of the site to the methods it is about. With --input, link the papers "
        "in a file of JSON lines (id, title, abstract), without a database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", help="file of JSON lines: id, title, abstract")
        parser.add_argument(
            "--corrections", action="store_true", help="print what people corrected, as labels"
        )
        parser.add_argument("--json", action="store_true", help="print one line of JSON per paper")
        parser.add_argument(
            "--report", help="compare with labels (id, method, relation) of held-out papers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["corrections"]:
            for label in corrections.labels():
                self.stdout.write(json.dumps(label))
            return
        if options["input"]:
            self._file(options)
            return
        if options["json"] or options["report"]:
            raise CommandError("--json and --report need --input; nothing was linked.")
        changed = linking.link(Paper.objects.all())
        self.stdout.write(f"{changed} links changed; {chips.refresh()} papers' chips with them.")

    def _file(self, options: dict[str, Any]) -> None:
        readings = read_lines(options["report"], Label) if options["report"] else ()
        rows = [row for row in readings if not labels.is_trained_on(row.id)]
        identifiers = {row.id for row in rows}
        about, seen = set(), set()
        for paper in read_lines(options["input"], Text):
            if rows and not options["json"] and paper.id not in identifiers:
                continue
            linked = evidence.links(paper.id, *paper.pair)
            seen.add(paper.id)
            about |= {
                (paper.id, link.method) for link in linked if link.relation in ("about", "source")
            }
            if options["json"]:
                links = [asdict(link) for link in linked]
                self.stdout.write(json.dumps({"id": paper.id, "links": links}))
        for line in labels.agreement((row for row in rows if row.id in seen), about):
            self.stdout.write(line)
