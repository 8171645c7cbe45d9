"""`manage.py ground`: look claims up in texts, without a database."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from pydantic import BaseModel

from assay_common.text import clean_json
from webapp.claims.grounding import GroundTruth
from webapp.core.json_lines import read_lines


class Paper(BaseModel):
    """A text and what is claimed to stand in it."""

    id: Any = None
    text: str
    claims: list[dict[str, Any]]


class Command(BaseCommand):
    help = (
        "Check whether the number and unit of each claim occur in the text. Lines of --input: "
        '{"id", "text", "claims": [{"metric", "value", "unit", "quote"}]}.'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", required=True, metavar="FILE.jsonl")
        parser.add_argument("--json", action="store_true", help="print lines of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        for paper in read_lines(options["input"], Paper):
            claims = _grounded(paper)
            if options["json"]:
                line = json.dumps({"id": paper.id, "claims": claims}, ensure_ascii=False)
                self.stdout.write(line)
                continue
            for claim in claims:
                number = f"{claim.get('value', '')} {claim.get('unit', '')}".strip()
                self.stdout.write(f"{paper.id}  {claim['state']:15}  {number}")


def _grounded(paper: Paper) -> list[dict[str, Any]]:
    truth = GroundTruth(paper.text)
    grounded = []
    for claim in paper.claims:
        # What is printed is what was compared: no invisible character reverses a number on screen.
        shown: Any = clean_json(claim)
        given = (shown.get(name) for name in ("value", "unit", "quote"))
        value, unit, quote = ("" if part is None else str(part) for part in given)
        grounded.append({**shown, "state": truth.ground(value, unit, quote).state.value})
    return grounded
