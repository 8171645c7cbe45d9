"""`manage.py ground`: look claims up in texts, without a database."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from methods.protocol import clean
from webapp.summaries.grounding import GroundTruth
from webapp.summaries.management.jsonl import objects


class Command(BaseCommand):
    help = (
        'Say of each claim whether its number and unit stand in the text. Lines of --input: {"id", '
        '"text", "claims": [{"metric", "value", "unit", "quote"}]}.'
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", type=Path, required=True, metavar="FILE.jsonl")
        parser.add_argument("--json", action="store_true", help="print lines of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        for paper in objects(options["input"], "text", "claims"):
            claims = _grounded(paper)
            if options["json"]:
                said = json.dumps({"id": paper.get("id"), "claims": claims}, ensure_ascii=False)
                self.stdout.write(said)
                continue
            for claim in claims:
                number = f"{claim.get('value', '')} {claim.get('unit', '')}".strip()
                self.stdout.write(f"{paper.get('id')}  {claim['state']:15}  {number}")


def _grounded(paper: dict[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(paper["text"], str) or not isinstance(paper["claims"], list):
        raise CommandError(f"{paper.get('id')}: text or claims are of the wrong type", returncode=2)
    truth = GroundTruth(paper["text"])
    grounded = []
    for claim in paper["claims"]:
        if not isinstance(claim, dict):
            raise CommandError(f"{paper.get('id')}: a claim is not an object", returncode=2)
        # What is printed is what was compared: no character turns a number round on the screen.
        shown = {name: clean(v) if isinstance(v, str) else v for name, v in claim.items()}
        value, unit, quote = (str(shown.get(name) or "") for name in ("value", "unit", "quote"))
        grounded.append({**shown, "state": truth.ground(value, unit, quote).state.value})
    return grounded
