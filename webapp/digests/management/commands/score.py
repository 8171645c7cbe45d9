"""manage.py score: JSON lines of papers by a profile's rules."""

import json
import textwrap
from typing import Annotated, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from pydantic import BaseModel, StringConstraints

from assay_common.terminal import table
from webapp.core.json_lines import read_lines
from webapp.digests.lookup import NotFoundError, find_profile
from webapp.digests.profiles.validation import ProfileError, load_rules
from webapp.digests.scoring.rules import Candidate, Standing, total
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.terms import keyword_name
from webapp.papers.models import AnnounceType


class PaperLine(BaseModel):
    """A paper in a line of input; other fields are ignored."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    title: Annotated[str, StringConstraints(max_length=100_000)]
    abstract: Annotated[str, StringConstraints(max_length=1_000_000)]
    categories: tuple[str, ...] = ()
    announce_type: AnnounceType = AnnounceType.NEW


class Command(BaseCommand):
    help = (
        "Score papers with a profile's rules. Input: one JSON object per line with id, title, "
        "abstract, categories and announce_type (default: new). `kept` says whether the rules "
        "keep a paper, regardless of the profile's number of papers per day."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--profile", metavar="NAME", help="slug or name (default: the site's)")
        parser.add_argument("--input", required=True, help="JSON lines, or - for standard input")
        parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            scorer = Scorer([load_rules(find_profile(options["profile"]))])
        except (NotFoundError, ProfileError) as error:
            raise CommandError(str(error), returncode=2) from None
        refused: list[str] = []

        def refuse(reason: str) -> None:
            refused.append(reason)
            self.stderr.write(reason)

        rows = []
        for line in read_lines(options["input"], PaperLine, refuse):
            scored = _scored(scorer, Candidate(**line.model_dump()))
            if options["json"]:
                self.stdout.write(json.dumps(scored, ensure_ascii=False))
            else:
                rows.append(_cells(scored))
        if not options["json"]:
            self.stdout.write(table(("score", "kept", "id", "why"), rows, right=["score"]))
        if refused:
            lines = "line was" if len(refused) == 1 else "lines were"
            raise CommandError(f"{len(refused)} {lines} not scored", returncode=1)


def _scored(scorer: Scorer, paper: Candidate) -> dict[str, Any]:
    """`{"id", "score", "kept", "matches": [{"keyword", "where", "points"}]}`, where `where` lists
    the fields with the keyword: "title", "abstract", both, or "authors". By place, `kept` is true
    of papers that are about it, and `also_mentioned` of the others that have a keyword.
    """
    matches, candidates = scorer.matches(0, paper), scorer.kept([paper])[0]
    about = [paper for paper in candidates if paper.standing is Standing.ABOUT]
    row = {"id": paper.id, "score": total(matches), "kept": bool(about), "matches": matches}
    return (
        row | {"also_mentioned": bool(candidates and not about)}
        if scorer.rules[0].by_place
        else row
    )


def _cells(scored: dict[str, Any]) -> tuple[str, ...]:
    why = ", ".join(f"{keyword_name(m['keyword'])} {m['points']:+g}" for m in scored["matches"])
    name = "".join(char if char.isprintable() else "�" for char in scored["id"])
    return (
        f"{scored['score']:g}",
        "yes" if scored["kept"] else "no",
        name,
        textwrap.shorten(why, 60, placeholder="…"),
    )
