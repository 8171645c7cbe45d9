"""Build the digests of days; they are written only if a reader would see a change."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date as Date
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.digests.batch import (
    ENTRY_FORMAT,
    REPLACEMENTS,
    Day,
    Setting,
    filter_by_keys,
    fingerprints,
    read_day,
    settings,
    shown_before,
    unchanged,
)
from webapp.digests.models import Digest, DigestEntry, FurtherMatches, Profile
from webapp.digests.profiles.validation import (
    ProfileError,
    read_settings,
    site_profile,
    stored_models,
)
from webapp.digests.scoring.rules import Kept, Rules, Standing
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.selection import select
from webapp.papers.models import Announcement

log = logging.getLogger(__name__)

# Of an entry.
PLAIN = ("paper", "rank", "score", "also_mentioned", "announce_type", "version", "text_hash")
ENTRY_COLUMNS = ("digest_id", "paper_id", *PLAIN[1:], "matches", "changed_at")
DIGEST_COLUMNS = (
    *("considered", "matched", "liked", "fingerprint", "inputs", "changed_at", "is_sample"),
)
ROOM = (
    50_000_000  # bytes of profiles in memory at once: more share the work of reading a day's papers
)
WRITTEN = 20  # digests of a transaction, which others wait for
ROWS = 500  # of a statement


def build(
    dates: Iterable[Date],
    profiles: Iterable[Profile] | None = None,
    on_built: Callable[[Date], object] = lambda date: None,
) -> QuerySet[Digest]:
    """Build the digests of `dates` for `profiles` (all, with the site's, if None).

    Idempotent, in transactions of some profiles on one date. The result does not depend on the
    order of calls: where the papers of a digest changed, later days that announce them again are
    built too. A day without papers has no digest. An invalid profile is logged and skipped. Memory
    does not grow with the number of profiles, but for their keys and hashes. `on_built` is called
    with each day, the oldest first. Returns the digests of these days, by date and profile, as a
    query that names no more profiles than `batch.FEW`: beyond that, those of all profiles.
    """
    if profiles is None:
        site_profile()
    profile_settings = settings(None if profiles is None else {profile.pk for profile in profiles})
    to_build = {date: set(profile_settings) for date in dates}
    days: list[Date] = []
    # Oldest day first: later days do not show its papers again.
    while to_build:
        date = min(to_build)
        due = to_build.pop(date)
        day = read_day(date)
        inputs = fingerprints(
            day, {key: profile_settings[key] for key in profile_settings if key in due}
        )
        standing = unchanged(date, inputs) if day.announced else {}
        changed = {key: profile_settings[key] for key in inputs if key not in standing}
        for keys in _in_batches(changed):
            for papers in _build_some(day, keys, inputs):
                for later, key in _announced_later(date, papers):
                    to_build.setdefault(later, set()).add(key)
        on_built(date)
        days.append(date)
    return Digest.objects.filter(
        date__in=days, **filter_by_keys("profile__in", profile_settings)
    ).order_by("date", "profile_id")


def _in_batches(profiles: Mapping[int, Setting]) -> Iterator[list[int]]:
    """Yield groups of profiles whose rules and models fit in memory together."""
    keys: list[int] = []
    room = ROOM
    for key, setting in profiles.items():
        if setting.size > room and keys:
            yield keys
            keys, room = [], ROOM
        keys.append(key)
        room -= setting.size
    if keys:
        yield keys


def _build_some(
    day: Day, keys: Sequence[int], inputs: Mapping[int, str]
) -> Iterator[dict[int, set[int]]]:
    """Build digests of some profiles; return the papers added or removed, by profile."""
    rules = _valid_rules(Profile.objects.filter(pk__in=keys))
    if not rules:
        return
    scorer = Scorer(list(rules.values()))
    candidates = scorer.kept(day.candidates, len(day.announced_before))
    earlier = shown_before(day, keys)
    drafts = [
        _Draft(day, profile, scorer, rule, candidates[rule], inputs[profile.pk])
        for rule, profile in enumerate(rules)
    ]
    for start in range(0, len(drafts), WRITTEN):
        some = drafts[start : start + WRITTEN]
        # Slow work is done before the transaction: SQLite has one writer at a time.
        for draft in some:
            draft.make(earlier.get(draft.profile.pk, set()))
        yield _write(day, {draft.profile.pk: draft for draft in some})


def _valid_rules(profiles: Iterable[Profile]) -> dict[Profile, Rules]:
    valid, profiles = {}, list(profiles)
    models = stored_models(profiles)
    for profile in profiles:
        try:
            learned = models.get((profile.owner_id or 0, profile.learn_from))
            valid[profile] = read_settings(profile).rules(learned)
        except ProfileError as error:
            log.error("Profile %s is invalid and gets no digest: %s", profile.slug, error)
    return valid


def rank_unseen(
    day: Day, rules: Rules, candidates: Iterable[Kept], shown: set[int]
) -> tuple[list[Kept], list[Kept]]:
    """A digest's papers and its further ones, in order.

    Without papers `shown` earlier, unless they are replacements.
    """
    unseen = [
        paper
        for paper in candidates
        if day.announced[paper.at].announce_type in REPLACEMENTS
        or day.announced[paper.at].paper.pk not in shown
    ]
    return select(rules, unseen, day.candidates)


def _announced_later(date: Date, changed: Mapping[int, set[int]]) -> Iterator[tuple[Date, int]]:
    """Yield later digests whose day announces again a paper that changed for the profile."""
    papers = {paper for some in changed.values() for paper in some}
    again = Announcement.objects.filter(paper__in=papers, listing__date__gt=date)
    days: dict[Date, set[int]] = defaultdict(set)
    for later, paper in again.values_list("listing__date", "paper"):
        days[later].add(paper)
    digests = Digest.objects.filter(profile__in=changed, date__in=days) if days else ()
    for digest in digests:
        if days[digest.date] & changed[digest.profile_id]:
            yield digest.date, digest.profile_id


def _rows(day: Day, ranked: Iterable[Kept]) -> list[dict[str, Any]]:
    """Return the ranked papers of a day as columns of entries, without their matches."""
    rows = []
    for paper in ranked:
        announced = day.announced[paper.at]
        row = {
            "paper": announced.paper.pk,
            "score": paper.score,
            "also_mentioned": paper.standing is not Standing.ABOUT,
            "announce_type": announced.announce_type.value,
            "version": announced.version,
        }
        rows.append(row)
    return rows


@dataclass
class _Draft:
    """A profile's digest of a day, before it is stored."""

    day: Day
    profile: Profile
    scorer: Scorer
    rule: int  # the number of the profile's rules
    candidates: Sequence[Kept]
    inputs: str
    earlier: set[int] = field(default_factory=set)  # papers that were shown before
    entries: list[dict[str, Any]] = field(default_factory=list)  # as columns
    matched: int = 0  # of the entries, without the nearest of the rest
    further: list[Kept] = field(default_factory=list)  # papers that matched beyond them
    rows: list[dict[str, Any]] = field(default_factory=list)  # of those

    @cached_property
    def rules(self) -> Rules:
        """The profile's rules."""
        return self.scorer.rules[self.rule]

    def make(self, earlier: set[int]) -> None:
        """Rank the candidates, without papers shown `earlier`."""
        day, scorer, rule, self.earlier = self.day, self.scorer, self.rule, earlier
        ranked, self.further = rank_unseen(day, self.rules, self.candidates, earlier)
        self.rows = [
            row | {"keywords": scorer.keywords(rule, day.candidates[paper.at])}
            for paper, row in zip(self.further, _rows(day, self.further), strict=True)
        ]
        self.matched = sum(paper.standing is not Standing.NEAREST for paper in ranked)
        self.entries = []
        for rank, (candidate, row) in enumerate(zip(ranked, _rows(day, ranked), strict=True), 1):
            paper = day.announced[candidate.at].paper
            odds = candidate.log_odds if self.rules.learned else None
            row["matches"] = scorer.matches(rule, day.candidates[candidate.at], odds)
            row["text_hash"] = _text_hash(paper.title, paper.abstract)
            self.entries.append(row | {"rank": rank})

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of papers considered, matched, and liked by the reader."""
        learned = self.rules.learned
        liked = learned.liked if learned and not learned.keyword_closeness else 0
        return self.day.considered(self.rules), self.matched + len(self.further), liked

    def fingerprint(self, contents: Sequence[str]) -> str:
        """Return a hash of everything that a reader sees, given the entries' contents."""
        day = self.day
        rest = [(day.candidates[p.at].id, p.score, p.standing) for p in self.further]
        papers_seen = [day.seen[entry["paper"]] for entry in self.entries]
        visible = [ENTRY_FORMAT, self.counts, day.is_sample, contents, papers_seen, rest]
        return sha256(json.dumps(visible).encode()).hexdigest()


def _write(day: Day, drafts: Mapping[int, _Draft]) -> dict[int, set[int]]:
    """Write the digests that changed; return the papers added or removed, by profile."""
    with transaction.atomic():
        # Builders of one profile take turns, so that earlier digests do not change meanwhile.
        locked = Profile.objects.select_for_update().filter(pk__in=drafts).order_by("pk")
        there = set(locked.values_list("pk", flat=True))  # others were deleted meanwhile
        stored = Digest.objects.filter(profile__in=there, date=day.date)
        digests = {digest.profile_id: digest for digest in stored}
        before: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for shown in DigestEntry.objects.filter(digest__in=list(digests.values())).values():
            before[shown["digest_id"]].append({**shown, "paper": shown["paper_id"]})
        changed = {
            key: {entry["paper"] for entry in before[digest.pk]} for key, digest in digests.items()
        }
        # A day that lost its papers (of the sample) loses its digests.
        if not day.announced:
            stored.delete()
            return changed
        drafts = {key: draft for key, draft in drafts.items() if key in there}
        earlier = shown_before(day, there)
        for key, draft in drafts.items():
            if (papers := earlier.get(key, set())) != draft.earlier:
                draft.make(papers)
        now = timezone.now()
        entries: list[tuple[Digest, dict[str, Any], datetime]] = []
        further = []
        for key, draft in drafts.items():
            digest = digests.setdefault(key, Digest(profile=draft.profile, date=day.date))
            digest.inputs = draft.inputs
            contents = [_content(entry) for entry in draft.entries]
            fingerprint = draft.fingerprint(contents)
            if digest.fingerprint == fingerprint:
                # Nothing visible changed: feeds and cached pages stay valid.
                changed[key] = set()
                continue
            digest.fingerprint, digest.changed_at = fingerprint, now
            digest.is_sample = day.is_sample
            digest.considered, digest.matched, digest.liked = draft.counts
            # An entry with the same content keeps its `changed_at`.
            since = {_content(entry): entry["changed_at"] for entry in before[digest.pk or 0]}
            for content, entry in zip(contents, draft.entries, strict=True):
                entries.append((digest, entry, since.get(content, now)))
            further.append(FurtherMatches(digest=digest, rows=draft.rows))
            changed[key] = changed.get(key, set()) ^ {entry["paper"] for entry in draft.entries}
        existing = [digest for digest in digests.values() if digest.pk]
        Digest.objects.bulk_update(existing, DIGEST_COLUMNS)
        Digest.objects.bulk_create(digest for digest in digests.values() if not digest.pk)
        anew = [matches.digest for matches in further]
        DigestEntry.objects.filter(digest__in=anew).delete()
        FurtherMatches.objects.filter(digest__in=anew).delete()
        _insert(entries)
        FurtherMatches.objects.bulk_create(further)
        return changed


def _insert(entries: Sequence[tuple[Digest, dict[str, Any], datetime]]) -> None:
    """Store entries of digests and the time of each change; in SQL, four times as fast."""
    columns = ", ".join(ENTRY_COLUMNS)
    row = f"({', '.join(['%s'] * len(ENTRY_COLUMNS))})"
    with connection.cursor() as cursor:
        for start in range(0, len(entries), ROWS):
            values: list[Any] = []
            for digest, entry, changed_at in (some := entries[start : start + ROWS]):
                timestamp = connection.ops.adapt_datetimefield_value(changed_at)
                values += (digest.pk, *(entry[name] for name in PLAIN), entry["json"], timestamp)
            cursor.execute(
                f"INSERT INTO {DigestEntry._meta.db_table} ({columns})"  # noqa: S608
                f" VALUES {', '.join([row] * len(some))}",
                values,
            )


@lru_cache(4_000)  # the papers of a day are in many digests
def _text_hash(title: str, abstract: str) -> str:
    return sha256(f"{title}\n{abstract}".encode(errors="replace")).hexdigest()[:8]


def _content(entry: dict[str, Any]) -> str:
    """Return an entry's visible content as text, rank excluded."""
    entry["json"] = _json(entry["matches"])
    return repr(([entry[name] for name in PLAIN if name != "rank"], entry["json"]))


def _json(value: object) -> str:
    """Return JSON with sorted keys, since PostgreSQL returns keys in its own order."""
    return json.dumps(value, sort_keys=True)
