"""Method chips on cards, as whoever knows the methods tells them."""

from __future__ import annotations

from webapp.digests.build import build
from webapp.digests.models import Chips, Digest


def tell(wanted: dict[int, list[dict[str, str]]]) -> int:
    """Keep the chips of papers ({paper id: [{"method", "name", "figure"}]}) and rebuild their days.

    The whole truth: a paper that is not named has none. Idempotent; how many papers changed.
    """
    known = {row.paper_id: row for row in Chips.objects.all()}
    gone = [paper_id for paper_id in known if paper_id not in wanted]
    changed = [
        paper_id
        for paper_id, chips in wanted.items()
        if paper_id not in known or known[paper_id].chips != chips
    ]
    if not gone and not changed:
        return 0
    Chips.objects.filter(paper_id__in=gone).delete()
    Chips.objects.bulk_create(
        [Chips(paper_id=paper_id, chips=wanted[paper_id]) for paper_id in changed],
        update_conflicts=True,
        unique_fields=["paper"],
        update_fields=["chips"],
    )
    shown = Digest.objects.filter(entries__paper_id__in=[*gone, *changed])
    build(sorted(set(shown.values_list("date", flat=True))))
    return len(gone) + len(changed)
