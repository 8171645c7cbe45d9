"""Chips: on the cards of papers that can be tested here, the mechanism and our figure of it."""

from collections import defaultdict

from django.db.models import Exists, OuterRef

from webapp.catalog import linking
from webapp.catalog.models import MethodLink
from webapp.catalog.paper_methods import PaperMethod
from webapp.catalog.queries import all_carried
from webapp.core.revisions import once
from webapp.digests import entries
from webapp.digests.models import DigestEntry


def refresh() -> int:
    """Store the chips of the papers whose mechanism can be run here; how many papers changed."""
    return once("chips", ("methods", "results", "digests"), _refresh, linking.fingerprint())


def _refresh() -> tuple[int, bool]:
    methods = {carried.method.slug: carried for carried in all_carried()}
    chips: dict[int, list[dict[str, str]]] = defaultdict(list)
    shown = DigestEntry.objects.filter(paper=OuterRef("paper"))
    links = MethodLink.objects.filter(MethodLink.counting(), Exists(shown), method__in=methods)
    for link in links.order_by("method").select_related("paper"):
        paper_method = PaperMethod(link, methods[link.method])
        if (experiment := paper_method.experiment) is None:
            continue
        figure = paper_method.carried.best_of(experiment.mechanism)
        chip = {"method": link.method, "name": experiment.mechanism.title}
        chips[link.paper_id].append(chip | {"figure": figure.text if figure else ""})
    return entries.store_chips(dict(chips)), True
