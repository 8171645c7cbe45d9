"""`manage.py link_papers`: link papers to methods; with `--input` it needs no database."""

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
        "Link every paper of the site to the methods it is about. With --input, print the links of "
        "the papers in a file as lines of JSON, without a database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--input", help="file of JSON lines: id, title, abstract")
        source.add_argument(
            "--corrections", action="store_true", help="print readers' corrections, as labels"
        )
        parser.add_argument(
            "--report",
            help="with --input: only compare with a file of labels (id, method, relation)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["report"] and not options["input"]:
            raise CommandError("--report needs --input; nothing was linked.")
        if options["corrections"]:
            for label in corrections.labels():
                self.stdout.write(json.dumps(label))
        elif options["report"]:
            self._report(options["input"], options["report"])
        elif options["input"]:
            self._file(options["input"])
        else:
            changed = linking.link(Paper.objects.all())
            self.stdout.write(
                f"{changed} links changed; {chips.refresh()} papers' chips with them."
            )

    def _file(self, path: str) -> None:
        for paper in read_lines(path, Text):
            links = [asdict(link) for link in evidence.links(paper.id, *paper.pair)]
            self.stdout.write(json.dumps({"id": paper.id, "links": links}))

    def _report(self, path: str, labels_path: str) -> None:
        rows = [row for row in read_lines(labels_path, Label) if not labels.is_trained_on(row.id)]
        identifiers = {row.id for row in rows}
        papers = {p.id: p for p in read_lines(path, Text) if p.id in identifiers}
        about = {
            (paper.id, link.method)
            for paper in papers.values()
            for link in evidence.links(paper.id, *paper.pair)
            if link.relation in {"about", "source"}
        }
        lines = list(labels.agreement((row for row in rows if row.id in papers), about))
        if not lines:
            raise CommandError(
                f"No paper of {path} has a label in {labels_path} that counts: those whose number "
                "ends in 0, 1 or 2 were used for training."
            )
        for line in lines:
            self.stdout.write(line)
