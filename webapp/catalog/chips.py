"""Chips: a method and its best measured figure, on the cards of the papers that concern it."""

from collections import defaultdict

from webapp.catalog.models import MethodLink
from webapp.catalog.queries import all_carried
from webapp.digests import entries


def refresh() -> int:
    """Store the best figures of the methods that papers concern; how many papers changed."""
    chips = {
        one.slug: {"method": one.slug, "name": one.title, "figure": best.text if best else ""}
        for one, best in ((carried.method, carried.best) for carried in all_carried())
    }
    wanted: dict[int, list[dict[str, str]]] = defaultdict(list)
    links = MethodLink.objects.filter(
        MethodLink.counting(), method__in=chips, paper__digest_entries__isnull=False
    )
    for paper_id, method in links.order_by("method").values_list("paper_id", "method").distinct():
        wanted[paper_id].append(chips[method])
    return entries.store_chips(dict(wanted))
