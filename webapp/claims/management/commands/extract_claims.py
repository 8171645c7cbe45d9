"""`manage.py extract_claims`: the claims of abstracts, taken by rule, without a database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import BaseModel

from webapp.claims.extraction.claims import claims_of
from webapp.claims.extraction.report import Score
from webapp.core.json_lines import read_lines


class Paper(BaseModel):
    """A paper as a line gives it."""

    id: Any = None
    abstract: str


class Marked(BaseModel):
    """The places of a paper's claims, and of what may or may not count as one."""

    id: Any
    claims: list[tuple[int, int]]
    optional: list[tuple[int, int]] = []


class Command(BaseCommand):
    help = (
        'Print the claims of abstracts. Lines of --input: {"id", "title", "abstract"}. '
        "With --report, compare them with those that a person annotated."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", required=True, metavar="FILE.jsonl")
        parser.add_argument("--json", action="store_true", help="print lines of JSON")
        parser.add_argument(
            "--report",
            metavar="ANNOTATIONS.jsonl",
            help='lines {"id", "claims": [[start, end], ...]}: print precision and recall',
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["report"]:
            self._report(options["report"], options["input"])
            return
        for paper in read_lines(options["input"], Paper):
            claims = claims_of(paper.abstract)
            if options["json"]:
                found = {"id": paper.id, "claims": [asdict(claim) for claim in claims]}
                self.stdout.write(json.dumps(found, ensure_ascii=False))
                continue
            for claim in claims:
                self.stdout.write(f"{paper.id}  {claim.shown:>16}  {claim.metric}")

    def _report(self, annotations: str, texts: str) -> None:
        marked = {str(row.id): row for row in read_lines(annotations, Marked)}
        development, test = Score(), Score()
        for paper in read_lines(texts, Paper):
            if (row := marked.pop(str(paper.id), None)) is None:
                continue
            score = development if str(paper.id)[-1] in "012" else test
            score.add(paper.abstract, row.claims, row.optional)
        if not development.papers + test.papers:
            raise CommandError(f"{texts} contains none of the annotated papers", returncode=2)
        self.stdout.write(f"development (ids ending in 0 to 2): {development}")
        self.stdout.write(f"test (ids ending in 3 and 4):       {test}")
        if marked:
            self.stdout.write(f"{len(marked)} annotated papers are not in {texts}")
