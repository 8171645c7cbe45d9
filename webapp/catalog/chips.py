"""Chips: on the cards of papers that can be tested here, the mechanism and our figure of it."""

from collections import defaultdict

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils.translation import override

from webapp.catalog import linking
from webapp.catalog.comparable import Comparison
from webapp.catalog.models import MethodLink
from webapp.catalog.paper_methods import PaperMethod
from webapp.catalog.queries import all_carried
from webapp.core.revisions import once
from webapp.digests import entries
from webapp.digests.models import DigestEntry
from webapp.ui.language import current_language


def refresh() -> int:
    """Store the chips of the papers whose mechanism can be run here; how many papers changed."""
    inputs = linking.fingerprint(), list(dict(settings.LANGUAGES))
    return once("chips", ("methods", "results", "digests"), _refresh, *inputs)


def _figures(figure: Comparison) -> dict[str, str]:
    """Return a figure's text in English, which feeds and mail take, and as pages show it."""
    with override("en"):
        texts = {"figure": figure.text}
    for language in set(dict(settings.LANGUAGES)) - {"en"}:
        with override(language):
            texts[f"figure_{current_language()}"] = figure.text
    return texts


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
        chips[link.paper_id].append(chip | (_figures(figure) if figure else {"figure": ""}))
    return entries.store_chips(dict(chips)), True
