"""`manage.py link_papers`: link papers to the methods they are about; files need no database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.catalog import chips, labels, linking, witnesses
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = (
        "Link every paper of the site to the methods it is about, or with --input the papers of "
        "a file of JSON lines (id, title, abstract), without a database."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", type=Path, help="file of JSON lines: id, title, abstract")
        parser.add_argument("--json", action="store_true", help="print one line of JSON a paper")
        parser.add_argument(
            "--report", type=Path, help="labels to compare with: id, method, relation"
        )
        parser.add_argument(
            "--part",
            choices=labels.PARTS,
            default="test",
            help="which labels count: test (ids ending in 3 or 4), training (0 to 2) or all",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["input"]:
            try:
                self._file(options)
            except (OSError, ValueError, KeyError) as error:
                raise CommandError(str(error)) from error
            return
        changed = linking.link(Paper.objects.all())
        self.stdout.write(f"{changed} links changed; {chips.refresh()} papers' chips with them.")

    def _file(self, options: dict[str, Any]) -> None:
        rows = labels.read(options["report"]) if options["report"] else []
        rows = [row for row in rows if options["part"] in {"all", row.part}]
        wanted = {row.id for row in rows}
        about, seen = set(), set()
        for paper in labels.read_papers(options["input"]):
            if rows and not options["json"] and paper.id not in wanted:
                continue
            found = witnesses.links(paper.id, *paper.pair)
            seen.add(paper.id)
            about |= {
                (paper.id, one.method) for one in found if one.relation in ("about", "source")
            }
            if options["json"]:
                links = [asdict(one) for one in found]
                self.stdout.write(json.dumps({"id": paper.id, "links": links}))
        for line in labels.agreement((row for row in rows if row.id in seen), about):
            self.stdout.write(line.text())
