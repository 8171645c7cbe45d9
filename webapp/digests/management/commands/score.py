"""manage.py score: JSON lines of papers by a profile's rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.digests.lookup import NotFoundError, find_profile
from webapp.digests.profiles.validation import ProfileError, rules_of
from webapp.digests.scoring.json_lines import ScoredPaper, score_json_lines
from webapp.digests.scoring.terms import keyword_name

_REASONS = 60  # characters of the reasons in the table


class Command(BaseCommand):
    help = (
        "Score papers with a profile's rules. Input: one JSON object a line with id, title, "
        "abstract, categories and announce_type (default: new). `kept` says whether the rules "
        "keep a paper, whatever the profile's number of papers a day."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--profile", metavar="NAME", help="slug or name (default: the site's)")
        parser.add_argument("--input", required=True, help="JSON lines, - for standard input")
        parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rules = rules_of(find_profile(options["profile"]))
        except (NotFoundError, ProfileError) as error:
            raise CommandError(str(error), returncode=2) from None
        refused = 0

        def refuse(number: int, reason: str) -> None:
            nonlocal refused
            refused += 1
            self.stderr.write(f"line {number}: {reason}")

        with _opened(options["input"]) as lines:
            if not options["json"]:
                self.stdout.write(f"{'score':>8}  {'kept':4}  {'id':16}  why")
            for scored in score_json_lines(rules, lines, refuse):
                self.stdout.write(scored.as_json() if options["json"] else _row(scored))
        if refused:
            lines_ = "line was" if refused == 1 else "lines were"
            raise CommandError(f"{refused} {lines_} not scored", returncode=1)


def _opened(name: str) -> BinaryIO:
    try:
        return sys.stdin.buffer if name == "-" else Path(name).open("rb")
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}", returncode=2) from None


def _row(scored: ScoredPaper) -> str:
    score = scored.score
    why = ", ".join(f"{keyword_name(one.keyword)} +{one.points:g}" for one in score.matches)
    if len(why) > _REASONS:
        why = why[: _REASONS - 1] + "…"
    kept = "yes" if score.kept else "no"
    return f"{score.score:8g}  {kept:4}  {_printable(scored.paper.id):16}  {why}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)
