"""Chips: the methods that a paper concerns, on its cards.

A figure stands in a chip only where the paper's own mechanism was measured.
"""

from collections import defaultdict

from webapp.catalog.models import MethodLink
from webapp.catalog.queries import all_carried
from webapp.digests import entries


def refresh() -> int:
    """Store the chips of the papers that methods concern; how many papers changed."""
    known = {carried.method.slug: carried for carried in all_carried()}
    wanted: dict[int, list[dict[str, str]]] = defaultdict(list)
    links = MethodLink.objects.filter(
        MethodLink.counting(), method__in=known, paper__digest_entries__isnull=False
    )
    columns = "paper_id", "paper__arxiv_id", "method"
    for paper_id, arxiv_id, slug in links.order_by("method").values_list(*columns).distinct():
        carried = known[slug]
        mechanism = carried.method.proposed_by(arxiv_id)
        figure = carried.best_of(mechanism) if mechanism else None
        chip = {"method": slug, "name": carried.method.title}
        wanted[paper_id].append(chip | {"figure": figure.text if figure else ""})
    return entries.store_chips(dict(wanted))
