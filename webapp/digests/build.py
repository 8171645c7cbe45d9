"""Build the digests of days; they are written only if a reader would see a change."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date as Date
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.digests.batch import (
    ENTRY_FORMAT,
    REPLACEMENTS,
    Day,
    Setting,
    day_of,
    few,
    fingerprints,
    settings,
    shown_before,
    unchanged,
)
from webapp.digests.marks import marks_of, version_of
from webapp.digests.models import Chips, Digest, DigestEntry, FurtherMatches, Profile
from webapp.digests.profiles.validation import ProfileError, known_models, settings_of, site_profile
from webapp.digests.scoring.scorer import Kept, Rules, Scorer, Standing, select
from webapp.digests.scoring.terms import normalise
from webapp.papers.models import Announcement
from webapp.ui import markup

log = logging.getLogger(__name__)

SHOWN_OF_ENTRY = (
    *("paper_id", "version", "score", "also_mentioned", "announce_type", "matches", "marks"),
    "chips",
)
# Profiles in memory at once. More share the work of reading a day's papers; a model that is learned
# takes the room of ten lists of keywords, up to 3 MB.
AT_ONCE, MODEL_IS_AS_LARGE_AS = 300, 10


def build(
    dates: Iterable[Date],
    profiles: Iterable[Profile] | None = None,
    on_built: Callable[[Date], object] = lambda date: None,
) -> QuerySet[Digest]:
    """Build the digests of `dates` for `profiles` (all, with the site's, if None).

    Idempotent, and one transaction per profile and date. The result does not depend on the order
    of calls: where the papers of a digest changed, later days that announce them again are built
    too. A day without papers has no digest. An invalid profile is logged and skipped. Memory does
    not grow with the number of profiles, but for their keys and hashes. `on_built` is called with
    each day, the oldest first. Returns the digests of these days, by date and profile, as a query
    that names no more profiles than `batch.FEW`: beyond that, those of all profiles.
    """
    if profiles is None:
        site_profile()
    own = settings(None if profiles is None else {profile.pk for profile in profiles})
    # Once the sample day is replaced its digests go.
    Digest.objects.filter(is_sample=True).exclude(
        date__in=Announcement.objects.filter(paper__is_sample=True).values("listing__date")
    ).delete()
    to_build = {date: set(own) for date in dates}
    days: list[Date] = []
    # Oldest day first: later days do not show its papers again.
    while to_build:
        date = min(to_build)
        asked = to_build.pop(date)
        day = day_of(date)
        inputs = fingerprints(day, {key: own[key] for key in own if key in asked})
        standing = unchanged(date, inputs) if day.announced else {}
        changed = {key: own[key] for key in inputs if key not in standing}
        for keys in _in_batches(changed):
            for key, papers in _build_some(day, keys, inputs):
                for later in _announced_later(key, date, papers):
                    to_build.setdefault(later, set()).add(key)
        on_built(date)
        days.append(date)
    return Digest.objects.filter(date__in=days, **few("profile__in", own)).order_by(
        "date", "profile_id"
    )


def _in_batches(profiles: Mapping[int, Setting]) -> Iterator[list[int]]:
    """Profiles whose rules and models are in memory together."""
    keys: list[int] = []
    room = AT_ONCE
    for key, setting in profiles.items():
        size = MODEL_IS_AS_LARGE_AS if setting.is_learned else 1
        if size > room and keys:
            yield keys
            keys, room = [], AT_ONCE
        keys.append(key)
        room -= size
    if keys:
        yield keys


def _build_some(
    day: Day, keys: Sequence[int], inputs: Mapping[int, str]
) -> Iterator[tuple[int, set[int]]]:
    """The papers added to each profile's digest or removed from it, by profile."""
    rules = _valid_rules(Profile.objects.filter(pk__in=keys))
    if not rules:
        return
    scorer = Scorer(list(rules.values()))
    kept = scorer.kept(day.candidates)
    for rule, profile in enumerate(rules):
        yield (
            profile.pk,
            _write_digest(profile, day, scorer, rule, kept=kept[rule], inputs=inputs[profile.pk]),
        )


def _valid_rules(profiles: Iterable[Profile]) -> dict[Profile, Rules]:
    valid, profiles = {}, list(profiles)
    models = known_models(profiles)
    for profile in profiles:
        try:
            learned = models.get((profile.owner_id or 0, profile.learn_from))
            valid[profile] = settings_of(profile).rules(learned)
        except ProfileError as error:
            log.error("Profile %s is invalid and gets no digest: %s", profile.slug, error)
    return valid


def rank_unseen(
    day: Day, rules: Rules, kept: Iterable[Kept], shown: set[int]
) -> tuple[list[Kept], list[Kept]]:
    """A digest's papers and its further ones, in order.

    Without papers `shown` earlier, unless they are replacements.
    """
    unseen = [
        paper
        for paper in kept
        if day.announced[paper.at].announce_type in REPLACEMENTS
        or day.announced[paper.at].paper.pk not in shown
    ]
    return select(rules, unseen, day.candidates)


def _announced_later(profile: int, date: Date, papers: set[int]) -> list[Date]:
    """The profile's digests after `date` whose days announce one of `papers` too."""
    if not papers:
        return []
    again = Announcement.objects.filter(paper_id__in=papers, listing__date__gt=date)
    mine = Digest.objects.filter(profile=profile, date__in=again.values("listing__date"))
    return list(mine.values_list("date", flat=True))


def rows_of(
    day: Day, ranked: Iterable[Kept], scorer: Scorer, rule: int, *, near: bool = True
) -> list[dict[str, Any]]:
    """The ranked papers of a day as the rows of FurtherMatches; for `near`, see `matches`."""
    rows = []
    for paper in ranked:
        announced = day.announced[paper.at]
        row = {
            "paper": announced.paper.pk,
            "score": paper.score,
            "also_mentioned": paper.standing is not Standing.ABOUT,
            "announce_type": announced.announce_type.value,
            "version": announced.version,
            "matches": scorer.matches(rule, day.candidates[paper.at], near=near),
        }
        rows.append(row)
    return rows


def _entries_of(day: Day, ranked: Sequence[Kept], scorer: Scorer, rule: int) -> list[DigestEntry]:
    """The ranked papers of a day as entries that are not stored yet."""
    papers = [day.announced[paper.at].paper for paper in ranked]
    entries = []
    for rank, row in enumerate(rows_of(day, ranked, scorer, rule), start=1):
        entry = DigestEntry(rank=rank, **row | {"paper": papers[rank - 1]})
        keywords = [match["keyword"] for match in entry.matches]
        entry.marks["text"] = version_of(entry.paper.title, entry.paper.abstract)
        for field in ("title", "abstract"):
            text = normalise(getattr(entry.paper, field))
            spans = scorer.spans(rule, text, keywords)
            entry.marks[field] = marks_of(markup.render(text, spans)) if spans else []
        entries.append(entry)
    return entries


def _add_chips(entries: Sequence[DigestEntry]) -> None:
    """The stored method chips of each paper, where there are any."""
    papers = [entry.paper for entry in entries]
    chips = dict(Chips.objects.filter(paper__in=papers).values_list("paper_id", "chips"))
    for entry in entries:
        entry.chips = chips.get(entry.paper_id, [])


def _write_digest(
    profile: Profile, day: Day, scorer: Scorer, rule: int, *, kept: Sequence[Kept], inputs: str
) -> set[int]:
    """Write one digest if it changed; returns the papers added to it or removed.

    `inputs` is the fingerprint of all its inputs.
    """
    rules = scorer.rules[rule]

    def ranked_by(earlier: set[int]) -> tuple[list[DigestEntry], list[Kept], list[dict[str, Any]]]:
        """The entries, and the further papers with their rows."""
        ranked, further = rank_unseen(day, rules, kept, earlier)
        rows = rows_of(day, further, scorer, rule, near=False)
        return _entries_of(day, ranked, scorer, rule), further, rows

    # What takes long is done before the transaction: SQLite has one writer at a time.
    earlier = shown_before(day, [profile.pk]).get(profile.pk, set())
    entries, further, rows = ranked_by(earlier)
    with transaction.atomic():
        # Builders of one profile take turns, so that earlier digests do not change meanwhile.
        if not Profile.objects.select_for_update().filter(pk=profile.pk).first():
            return set()  # deleted meanwhile
        place = {"profile": profile, "date": day.date}
        digest = Digest.objects.filter(**place).first() or Digest(**place)
        before = list(digest.entries.all()) if digest.pk else []
        papers = {entry.paper_id for entry in before}
        # A day that lost its papers (of the sample) loses its digest.
        if not day.announced:
            if digest.pk:
                digest.delete()
            return papers
        shown = shown_before(day, [profile.pk]).get(profile.pk, set())
        if shown != earlier:
            entries, further, rows = ranked_by(shown)
        matched, liked = len(entries) + len(further), rules.learned.liked if rules.learned else 0
        _add_chips(entries)
        considered = day.considered(rules)
        contents = [_entry_content(entry) for entry in entries]
        papers_seen = [day.seen[entry.paper_id] for entry in entries]
        rest = [(day.announced[p.at].paper.arxiv_id, p.score, p.standing) for p in further]
        counts = [considered, matched, liked, day.is_sample]
        visible = [ENTRY_FORMAT, counts, contents, papers_seen, rest]
        fingerprint = sha256(json.dumps(visible, sort_keys=True).encode()).hexdigest()
        # Nothing visible changed: feeds and cached pages stay valid.
        digest.inputs = inputs
        if digest.fingerprint == fingerprint:
            digest.save(update_fields=["inputs"])
            return set()
        now = timezone.now()
        digest.considered, digest.matched, digest.liked = considered, matched, liked
        digest.fingerprint, digest.changed_at = fingerprint, now
        digest.is_sample = day.is_sample
        digest.save()
        _replace_entries(digest, before, dict(zip(contents, entries, strict=True)), now)
        FurtherMatches.objects.update_or_create(digest=digest, defaults={"rows": rows})
        return papers ^ {entry.paper.pk for entry in entries}


def _replace_entries(
    digest: Digest,
    before: list[DigestEntry],
    entries: Mapping[tuple[str, ...], DigestEntry],
    now: datetime,
) -> None:
    """Write the entries, by their content; one with the same content keeps its `changed_at`."""
    unchanged_since = {_entry_content(entry): entry.changed_at for entry in before}
    digest.entries.all().delete()
    for content, entry in entries.items():
        entry.digest, entry.changed_at = digest, unchanged_since.get(content, now)
    DigestEntry.objects.bulk_create(entries.values())


def _entry_content(entry: DigestEntry) -> tuple[str, ...]:
    """What an entry shows of its paper, regardless of its rank."""
    # Sorted, since PostgreSQL returns keys in an order of its own.
    return tuple(json.dumps(getattr(entry, name), sort_keys=True) for name in SHOWN_OF_ENTRY)
