"""`manage.py extract_claims`: what abstracts report, quoted by rules, without a database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import BaseModel

from webapp.claims.extraction.quotes import quotes
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
        'Print the numbers that abstracts report, in quotes. Lines of --input: {"id", "abstract"}. '
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
            reported = quotes(paper.abstract)
            if options["json"]:
                line = {
                    "id": paper.id,
                    "quotes": [
                        {"quote": quote.text, "numbers": [asdict(n) for n in quote.numbers]}
                        for quote in reported
                    ],
                }
                self.stdout.write(json.dumps(line, ensure_ascii=False))
                continue
            for quote in reported:
                numbers = ", ".join(number.shown for number in quote.numbers)
                self.stdout.write(f"{paper.id}  {numbers:>16}  {quote.text}")

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
