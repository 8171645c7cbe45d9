"""`manage.py extract_claims`: what abstracts report, quoted by rules, without a database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand
from pydantic import BaseModel

from webapp.claims.extraction.quotes import quotes
from webapp.core.json_lines import read_lines


class Paper(BaseModel):
    """A paper as a line gives it."""

    id: Any = None
    abstract: str


class Command(BaseCommand):
    help = 'Print what abstracts report, in quotes. Lines of --input: {"id", "abstract"}.'

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", required=True, metavar="FILE.jsonl")
        parser.add_argument("--json", action="store_true", help="print lines of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
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
