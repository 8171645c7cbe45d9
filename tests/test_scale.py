"""No page reads more of the database because the site has more runs and papers."""

import pytest

from benchmarks.scale import PAGES, Cost, ask, build, count_search, kinds_of_search
from webapp.runs.models import Run

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SEARCH_QUERIES = 20


def costs() -> dict[str, Cost]:
    pages = {}
    for page in PAGES:
        pages[page.name], kept = ask(page, times=1)
        assert kept.queries <= page.kept_queries, (page.name, kept)
    return pages | {name: count_search(one) for name, one in kinds_of_search().items()}


def test_pages_and_searches_keep_to_their_queries_and_rows_as_the_site_grows() -> None:
    Run.objects.all().delete()  # of a rig that other tests of this process use
    build(400, 40)
    small = costs()
    build(1_200, 1_000)  # so many that a walk over all of them shows
    large = costs()
    limits = {page.name: page.queries for page in PAGES}
    for name, cost in large.items():
        assert cost.queries <= limits.get(name, SEARCH_QUERIES), (name, cost)
    for page in PAGES:
        before, after = small[page.name], large[page.name]
        assert after.queries <= before.queries, (page.name, before, after)
        assert after.rows <= 1.2 * before.rows + 5, (page.name, before, after)
        assert after.steps <= 1.5 * before.steps + 5, (page.name, before, after)
