"""Find papers, profiles and digests by the names people type; errors suggest similar names."""

from argparse import ArgumentTypeError
from collections.abc import Sequence
from datetime import date as Date
from difflib import get_close_matches

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext

from webapp.digests.models import Digest, Profile
from webapp.digests.profiles.validation import site_profile
from webapp.digests.queries import neighbouring_dates
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper


class NotFoundError(Http404):
    """Nothing has this name; the message suggests similar names."""


def find_paper(text: str) -> Paper:
    """The paper with an arXiv identifier or URL. Raises NotFoundError, also for its version."""
    try:
        identifier, version = parse_identifier(text)
        paper = Paper.objects.get(arxiv_id=identifier)
    except ValueError as error:
        raise NotFoundError(f"{error}.") from None
    except Paper.DoesNotExist:
        absent = gettext("This site has not fetched %(paper)s.") % {"paper": identifier}
        raise NotFoundError(absent) from None
    check_version(paper, version)
    return paper


def check_version(paper: Paper, version: int | None) -> None:
    """Raise NotFoundError for a version that a paper does not have, as far as this site knows."""
    if version and version > paper.version:
        absent = gettext(
            "%(paper)s has no version %(version)d. The latest here is version %(latest)d."
        )
        names = {"paper": paper.arxiv_id, "version": version, "latest": paper.version}
        raise NotFoundError(absent % names)


def find_profile(name: str | None, visitor: User | AnonymousUser | None = None) -> Profile:
    """The profile with this slug, else this name; the site's without one.

    Only among those that `visitor` may see; commands, which have none, find every one.
    Raises NotFoundError.
    """
    if name is None:
        return site_profile()
    seen = Profile.objects.all() if visitor is None else Profile.visible_to(visitor)
    profile = _named(seen, name)
    if profile is None:
        site_profile()  # on a new site it is made here
        profile = _named(seen, name)
    if profile is None:
        names = {word for pair in seen.values_list("slug", "name") for word in pair}
        raise NotFoundError(f"There is no feed {name!r}. {_suggestion(name, sorted(names))}")
    return profile


def _named(profiles: QuerySet[Profile], name: str) -> Profile | None:
    return (
        profiles.filter(slug=name).first()
        or profiles.filter(name=name).order_by("pk").first()
        or profiles.filter(name__iexact=name).order_by("pk").first()
    )


def profile_at(slug: str | None, visitor: User | AnonymousUser, key: str = "") -> Profile:
    """The profile of a URL; without a slug the site's own, unsaved while there is none.

    Raises Http404, also for one that `visitor` may not see.
    """
    if slug:
        return get_object_or_404(Profile.visible_to(visitor, key), slug=slug)
    site = Profile.objects.filter(is_site=True).first()
    return site or Profile(name="Assay", slug="site", is_site=True)


def find_digest(profile: Profile, date: Date | None) -> Digest:
    """The profile's digest of `date`, or its latest. Raises NotFoundError."""
    digests = Digest.objects.filter(profile=profile)
    digest = digests.first() if date is None else digests.filter(date=date).first()
    if digest is not None:
        return digest
    if date and (near := list(filter(None, neighbouring_dates(profile, date)))):
        days = " and ".join(day.isoformat() for day in near)
        raise NotFoundError(f"“{profile.name}” has no digest of {date}. The nearest: {days}.")
    raise NotFoundError(f"“{profile.name}” has no digest yet. Get papers with: manage.py fetch")


def day(text: str) -> Date:
    """The day in a command's option; the first of a year or month."""
    try:
        return Date.fromisoformat(f"{text}-01-01"[: max(len(text), 10)])
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: write a day as 2026-03-02") from None


def _suggestion(name: str, names: Sequence[str]) -> str:
    folded = {other.casefold(): other for other in names}
    close = [folded[other] for other in get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)]
    if close:
        return f"Did you mean {' or '.join(close)}?"
    listed = ", ".join(names[:10])
    return f"There are: {listed}{', …' if len(names) > 10 else ''}."
