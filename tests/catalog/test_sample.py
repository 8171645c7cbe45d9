"""The first minute without arXiv: from the sample day to a method's claim and its measurement."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from methods import registry
from webapp.catalog import chips, linking, queries
from webapp.catalog.models import MethodLink
from webapp.catalog.verdicts import Word
from webapp.digests.build import build
from webapp.digests.models import Digest
from webapp.digests.profiles.validation import site_profile
from webapp.papers.sample import load_sample

# A paper about each method whose links words alone may make, and a number of its own abstract:
# those of SEPS wait for a model's answer.
SHOWN = [
    ("sparse_attention", "2512.14082", "2.61"),
    ("concept_lm", "2512.02240", "77-92%"),
    ("token_pruning", "2512.02700", "88.9%"),
]
# The three answers to whether a paper can be tested here, each on a page of the sample.
COMPARABLE = "2406.10774"  # Quest: 7.03× at 32K
MEASURED = "2512.07011"  # Block Sparse Flash Attention: its mechanism, at another stage
NOT_HERE = "2512.15550"  # CTkvr
INTERVAL = r"\((exact|[\d.e+-]+–[\d.e+-]+)\)"
FIGURE = re.compile(
    rf"[\d.e+-]+× ((?:faster|slower|better|worse|smaller|larger)[^(]* {INTERVAL} than "
    rf"|{INTERVAL}, no difference from )"
)
MAX_UNTESTABLE = 2  # claims of a method that need what nobody here has
FIRST_SEEN = 10  # places of the digest's first page in which each method is met


def text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


@pytest.mark.django_db
def test_the_sample_leads_from_the_first_page_to_each_method(client: Client) -> None:
    call_command("import_results", stdout=StringIO())
    build(load_sample("arXiv cannot be reached").dates, [site_profile()])
    linking.link_new()
    chips.refresh()
    about = MethodLink.objects.filter(relation=MethodLink.Relation.ABOUT)
    digest = Digest.objects.get()
    first = set(
        digest.entries.filter(rank__lte=FIRST_SEEN).values_list("paper__arxiv_id", flat=True)
    )
    for method, paper, number in SHOWN:
        assert about.filter(method=method, paper__arxiv_id=paper).exists(), method
        assert paper in first
        page = text(client, f"/papers/{paper}/")
        related = page.index("Can it be tested here?")
        marked = re.findall(
            "<mark[^>]*>([^<]*)</mark>", client.get(f"/papers/{paper}/").content.decode()
        )
        assert number in marked
        assert "Not implemented here. Closest:" in page[related:]
        assert "AMD EPYC" not in page, "a figure of another mechanism"
    methods = client.get("/methods/", headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "与机器无关" in methods, "where a count holds is said in the reader's language"
    assert "on any machine" not in methods


@pytest.mark.django_db
def test_the_sample_shows_the_three_answers(client: Client) -> None:
    call_command("import_results", stdout=StringIO())
    build(load_sample("arXiv cannot be reached").dates, [site_profile()])
    linking.link_new()

    def answer(paper: str) -> str:
        page = text(client, f"/papers/{paper}/")
        return page[page.index("Can it be tested here?") : page.index("Why this method")]

    comparable = answer(COMPARABLE)
    assert "Yes. The paper reports 7.03× ; measured here:" in comparable
    assert "at 32768 tokens" in comparable
    assert FIGURE.search(comparable)
    measured = answer(MEASURED)
    assert "Only its mechanism. Measured here: Blocks by their exact scores" in measured
    assert FIGURE.search(measured)
    assert "Not comparable:" in measured
    assert "Not implemented here. Closest:" in answer(NOT_HERE)
    assert not FIGURE.search(answer(NOT_HERE))


@pytest.mark.django_db
def test_every_figure_reads_as_a_sentence() -> None:
    call_command("import_results", stdout=StringIO())
    figures = [figure for carried in queries.all_carried() for figure in carried.comparisons]
    assert len(figures) > 100
    spoiled = [figure.text for figure in figures if not FIGURE.search(figure.text)]
    assert [text for text in spoiled if "insufficient data" not in text] == []


@pytest.mark.django_db
def test_every_claim_of_a_source_is_answered() -> None:
    call_command("import_results", stdout=StringIO())
    for carried in queries.all_carried():
        assert {one.claim.id for one in carried.answers} == {
            one.id for one in carried.method.claims
        }
        assert all(one.verdict.word for one in carried.answers), carried.method.slug
        unanswered = {
            one.claim.id for one in carried.answers if one.verdict.word is Word.UNTESTABLE
        }
        assert len(unanswered) <= MAX_UNTESTABLE, unanswered
        # A claim that is left open says what would settle it.
        for one in carried.answers:
            if one.verdict.word is Word.INCONCLUSIVE:
                assert re.search("python -m methods|No run can", one.claim.decides), one.claim.id
            if one.verdict.word is Word.UNTESTABLE:
                assert "python -m methods" in one.verdict.reason, one.claim.id


@pytest.mark.django_db
def test_a_methods_page_says_what_would_decide_an_open_claim(client: Client) -> None:
    call_command("import_results", stdout=StringIO())
    page = text(client, "/methods/seps/")
    assert "python -m methods run seps.retrieval --preset full --set seeds=10" in page


COMMAND = re.compile(r"python -m methods run (\S+) --preset (\S+) --set ([^`\s]+)")
DECIDING = {
    command
    for method in registry.all_methods()
    for claim in method.claims
    for command in COMMAND.findall(claim.decides)
}


@pytest.mark.parametrize("command", sorted(DECIDING))
def test_the_runs_that_would_decide_can_be_started(command: tuple[str, str, str]) -> None:
    name, preset, setting = command
    _, benchmark = registry.find(name)
    key, _, value = setting.partition("=")
    assert getattr(benchmark.resolve(preset, {key: value}), key)
