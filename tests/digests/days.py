"""Days of papers for digests, straight into the database; each with its listings."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from webapp.digests.models import Digest, Profile
from webapp.papers.models import Announcement, Listing, Paper
from webapp.ui.markup import render

MONDAY, TUESDAY, WEDNESDAY = date(2026, 3, 2), date(2026, 3, 3), date(2026, 3, 4)
POLLED = datetime(2026, 3, 2, 6, tzinfo=UTC)


def listing(day: date, category: str = "cs.CL", **fields: Any) -> Listing:
    made, _ = Listing.objects.get_or_create(
        date=day,
        category=category,
        defaults={
            "state": Listing.State.COMPLETE,
            "source": Listing.Source.RSS,
            "polled_at": POLLED,
            "changed_at": POLLED,
        }
        | fields,
    )
    return made


def paper(number: int, title: str = "On sparse attention", **fields: Any) -> Paper:
    abstract = fields.setdefault("abstract", "We study language models.")
    return Paper.objects.create(
        arxiv_id=fields.pop("arxiv_id", f"2603.{number:05d}"),
        title=title,
        title_html=render(title),
        abstract_html=render(abstract, links=True),
        authors=fields.pop("authors", [{"name": "Ada Lindqvist", "affiliation": ""}]),
        primary_category="cs.CL",
        categories=fields.pop("categories", ["cs.CL"]),
        **fields,
    )


def announce(
    day: date, *papers: Paper, kind: str = "new", category: str = "cs.CL", version: int = 1
) -> None:
    for one in papers:
        Announcement.objects.create(
            listing=listing(day, category), paper=one, type=kind, version=version
        )


def profile(name: str = "Mine", **fields: Any) -> Profile:
    return Profile.objects.create(
        slug=fields.pop("slug", name.lower()),
        name=name,
        **(
            {
                "categories": ["cs.CL"],
                "keywords": [
                    {"keyword": one, "weight": 1.0, "title_bonus": 0.5}
                    for one in fields.pop("words", ["sparse", "attention", "models"])
                ],
                "announce_types": ["new", "cross"],
            }
            | fields
        ),
    )


def shown(profile: Profile, day: date) -> list[str]:
    """The identifiers in a digest, in order."""
    digest = Digest.objects.get(profile=profile, date=day)
    return list(digest.entries.values_list("paper__arxiv_id", flat=True))
