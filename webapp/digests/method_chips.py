"""Method chips: a method and its best figure, on the cards of the papers that concern it."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from webapp.digests import entries
from webapp.digests.models import Chips, DigestEntry, Profile


def store_chips(chips_by_paper: dict[int, list[dict[str, str]]]) -> int:
    """Store all chips ({paper id: [{"method", "name", "figure"}]}), also in digest entries.

    A paper that is not named loses its chips. Idempotent; returns how many papers changed.
    """
    stored = {row.paper_id: row for row in Chips.objects.all()}
    removed = [paper_id for paper_id in stored if paper_id not in chips_by_paper]
    changed = [
        paper_id
        for paper_id, chips in chips_by_paper.items()
        if paper_id not in stored or stored[paper_id].chips != chips
    ]
    if not removed and not changed:
        return 0
    with transaction.atomic():
        entries.take_turns(Profile.objects.all())
        Chips.objects.filter(paper_id__in=removed).delete()
        Chips.objects.bulk_create(
            [Chips(paper_id=paper_id, chips=chips_by_paper[paper_id]) for paper_id in changed],
            update_conflicts=True,
            unique_fields=["paper"],
            update_fields=["chips"],
        )
        shown = list(DigestEntry.objects.filter(paper__in=[*removed, *changed]))
        now = timezone.now()
        for entry in shown:
            entry.chips, entry.changed_at = chips_by_paper.get(entry.paper_id, []), now
        DigestEntry.objects.bulk_update(shown, ["chips", "changed_at"], batch_size=500)
        entries.touch({entry.digest_id for entry in shown})
    return len(removed) + len(changed)
