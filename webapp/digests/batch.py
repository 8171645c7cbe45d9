"""A day's papers, and fingerprints of all inputs of a digest: an unchanged one is not rebuilt.

Gists and method chips are not inputs: they are read with the entries (`entries.py`).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as Date
from functools import cached_property, lru_cache
from hashlib import sha256

from webapp.core.revisions import Token, revision
from webapp.digests.models import Digest, DigestEntry, LearnedModel, Profile
from webapp.digests.profiles.defaults import default_model
from webapp.digests.profiles.validation import ProfileSettings
from webapp.digests.scoring.rules import Candidate, Rules
from webapp.papers.models import Announcement, AnnounceType
from webapp.papers.queries import Announced, announced_on

# Part of fingerprints: raise it when digests store the same papers differently.
ENTRY_FORMAT = 8
REPLACEMENTS = {AnnounceType.REPLACE, AnnounceType.REPLACE_CROSS}
FEW = 500  # keys that a query names
# Bytes in memory while digests are made: of any profile, of each character of its settings, and of
# a model that is learned. `tests/digests/test_memory.py` measures the largest of each.
PROFILE_BYTES, BYTES_OF_CHARACTER, MODEL_BYTES = 200_000, 40, 1_000_000
SETTINGS = [name for name in ProfileSettings.model_fields if name != "name"]


@dataclass(frozen=True)
class Day:
    """A day's papers, in the order of identifiers."""

    date: Date
    announced: Sequence[Announced]

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """Candidates as the scorer reads them."""
        return [
            Candidate(
                announced.paper.arxiv_id,
                announced.paper.title,
                announced.paper.abstract,
                announced.categories,
                announced.announce_type.value,
                announced.paper.submitted_at,
                tuple(announced.paper.author_names),
            )
            for announced in self.announced
        ]

    def considered(self, rules: Rules) -> int:
        """Return the number of candidates that the rules admit."""
        return sum(many for kind, many in self._kinds.items() if rules.admits(*kind))

    @cached_property
    def _kinds(self) -> Counter[tuple[tuple[str, ...], str]]:
        """Number of candidates by categories and announce type."""
        return Counter((paper.categories, paper.announce_type) for paper in self.candidates)

    @cached_property
    def announced_before(self) -> frozenset[int]:
        """The papers that an earlier day announced, but for replacements, which are shown again."""
        new = [a.paper.pk for a in self.announced if a.announce_type not in REPLACEMENTS]
        again = Announcement.objects.filter(paper__in=new, listing__date__lt=self.date)
        return frozenset(again.values_list("paper", flat=True))

    @cached_property
    def seen(self) -> Mapping[int, str]:
        """Hash of everything that a digest shows or scores of each paper, by primary key."""
        hashes = {}
        for announced, candidate in zip(self.announced, self.candidates, strict=True):
            paper, version = announced.paper, announced.version
            shown = (version, paper.categories, paper.comment, paper.doi, paper.journal_ref)
            hashes[paper.pk] = sha256(repr((candidate, shown)).encode()).hexdigest()
        return hashes

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all papers' hashes."""
        whole = (ENTRY_FORMAT, self.is_sample, *self.seen.values())
        return sha256(repr(whole).encode()).hexdigest()

    @cached_property
    def is_sample(self) -> bool:
        """True if the papers come from the sample."""
        return any(announced.paper.is_sample for announced in self.announced)


@dataclass(frozen=True)
class Setting:
    """Hash of a profile's inputs to its digests, and the bytes that they take in memory."""

    digest: str
    size: int


def settings(keys: Collection[int] | None = None) -> dict[int, Setting]:
    """The setting of each profile (of all, if None), the site's first; two queries.

    Rows are hashed as they come, unchecked and without the learned models: those of an unchanged
    profile are neither parsed nor held. What else the code makes of them is ENTRY_FORMAT's.
    """
    models = LearnedModel.objects.all()
    # A reader's profiles beside each other: they share what was learned.
    profiles = Profile.objects.order_by("-is_site", "owner_id", "pk")
    if keys is not None:
        profiles = profiles.filter(pk__in=keys)
        models = models.filter(reader__profiles__in=keys).distinct()
    learned = {
        (reader, source): fingerprint
        for reader, source, fingerprint in models.values_list("reader", "source", "fingerprint")
    }
    by_profile = {}
    for row in profiles.values("pk", "owner_id", *SETTINGS).iterator(chunk_size=500):
        key, owner = row.pop("pk"), row.pop("owner_id")
        model = ""
        if row["ranking"] != Profile.Ranking.RULES:
            mine = learned.get((owner, row["learn_from"]), "")
            model = mine if owner else default_model().fingerprint
        # Sorted, since PostgreSQL returns keys in an order of its own.
        text = json.dumps([model, row], sort_keys=True)
        size = PROFILE_BYTES + BYTES_OF_CHARACTER * len(text) + MODEL_BYTES * bool(model)
        by_profile[key] = Setting(sha256(text.encode()).hexdigest(), size)
    return by_profile


def fingerprints(day: Day, profiles: Mapping[int, Setting]) -> dict[int, str]:
    """A hash of all inputs of each profile's digest of `day`, by profile; two queries for all."""
    before = shown_before(day, profiles)
    return {
        profile: sha256(
            repr((day.fingerprint, setting.digest, sorted(before.get(profile, ())))).encode()
        ).hexdigest()
        for profile, setting in profiles.items()
    }


def unchanged(date: Date, inputs: Mapping[int, str]) -> dict[int, int]:
    """Return the digests of `date` that were built from these inputs, by profile; one query."""
    digests = Digest.objects.filter(date=date, **filter_by_keys("profile__in", inputs))
    rows = digests.values_list("profile_id", "pk", "inputs").iterator()
    return {profile: key for profile, key, built_from in rows if inputs.get(profile) == built_from}


def read_day(date: Date) -> Day:
    """The papers of a day; those of the last one are kept while none is written."""
    return _read(date, revision("papers", "listings"))


@lru_cache(maxsize=1)
def _read(date: Date, _revision: Token) -> Day:
    return Day(date, announced_on(date))


def filter_by_keys(lookup: str, keys: Collection[int]) -> dict[str, Collection[int]]:
    """Return a filter by keys, or none if there are so many that reading all costs less."""
    return {lookup: list(keys)} if len(keys) <= FEW else {}


def shown_before(day: Day, profiles: Collection[int]) -> Mapping[int, set[int]]:
    """Return the day's papers that an earlier digest already showed, by profile.

    Only papers that were announced on an earlier day as well are looked up, a small part of a
    day's: the others can only be in digests of the day itself.
    """
    earlier = DigestEntry.objects.filter(
        digest__date__lt=day.date,
        paper__in=day.announced_before,
        **filter_by_keys("digest__profile__in", profiles),
    )
    shown: dict[int, set[int]] = defaultdict(set)
    for profile, paper in earlier.values_list("digest__profile", "paper").iterator():
        if profile in profiles:
            shown[profile].add(paper)
    return shown
