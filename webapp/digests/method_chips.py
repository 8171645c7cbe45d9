"""Method chips: a method and its best figure, on the cards of the papers that concern it."""

from __future__ import annotations

from webapp.digests.build import build
from webapp.digests.models import Chips, Digest


def store_chips(chips_by_paper: dict[int, list[dict[str, str]]]) -> int:
    """Store all chips ({paper id: [{"method", "name", "figure"}]}) and rebuild their days.

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
    Chips.objects.filter(paper_id__in=removed).delete()
    Chips.objects.bulk_create(
        [Chips(paper_id=paper_id, chips=chips_by_paper[paper_id]) for paper_id in changed],
        update_conflicts=True,
        unique_fields=["paper"],
        update_fields=["chips"],
    )
    digests = Digest.objects.filter(entries__paper_id__in=[*removed, *changed])
    build(sorted(set(digests.values_list("date", flat=True))))
    return len(removed) + len(changed)
