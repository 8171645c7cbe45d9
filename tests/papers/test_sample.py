"""The sample day: arXiv's form, arXiv's facts, and the seed bot's scores and order."""

import json
import re
from pathlib import Path
from typing import Any

import feedparser
import pytest

SAMPLE = Path(__file__).parents[2] / "sample" / "rss_2025-12-18.xml"
FACTS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("sample_facts.json").read_text(encoding="utf-8")
)
DESCRIPTION = re.compile(
    r"arXiv:(?P<id>\S+) Announce Type: (?P<type>\S+) \nAbstract: (?P<abstract>.+)"
)

# The seed bot's rule, stated here on its own so that it judges our scoring and not itself.
KEYWORDS = (
    "llm", "rl", "rlhf", "inference", "training", "attention", "pipeline", "moe", "sparse",
    "quantization", "speculative", "efficient", "efficiency", "framework", "parallel",
    "distributed", "kernel", "decode", "decoding", "prefill", "throughput", "fast", "network",
    "hardware", "cluster", "fp8", "fp4", "optimization", "scalable", "communication",
)  # fmt: skip
EXCLUDED = ("survey", "review", "tutorial")


def seed_score(title: str, abstract: str) -> float:
    text, title = f"{title} {abstract}".lower(), title.lower()
    if any(word in text for word in EXCLUDED):
        return 0.0
    return sum(1.0 * (keyword in text) + 0.5 * (keyword in title) for keyword in KEYWORDS)


@pytest.fixture(scope="module")
def feed() -> Any:
    return feedparser.parse(SAMPLE.read_bytes())


@pytest.fixture(scope="module")
def papers(feed: Any) -> list[dict[str, Any]]:
    """The items in feed order, each with its description taken apart."""
    papers = []
    for entry in feed.entries:
        description = DESCRIPTION.fullmatch(entry.summary)
        assert description, entry.summary
        papers.append({"entry": entry, "title": entry.title, **description.groupdict()})
    return papers


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, Any]]:
    return {fact["id"]: fact for fact in FACTS}


def test_the_feed_is_well_formed(feed: Any) -> None:
    assert not feed.bozo, feed.get("bozo_exception")
    assert feed.version == "rss20"
    assert feed.encoding.lower() == "utf-8"


def test_the_channel_is_arxivs(feed: Any) -> None:
    assert feed.feed.title == "cs.AI+cs.CL+cs.DC+cs.LG updates on arXiv.org"
    assert feed.feed.published == "Thu, 18 Dec 2025 00:00:00 -0500"
    assert feed.feed.updated == "Thu, 18 Dec 2025 05:00:00 +0000"
    assert [link.href for link in feed.feed.links if link.rel == "self"] == [feed.feed.link]


def test_all_papers_are_there_once(papers: list[dict[str, Any]]) -> None:
    assert len(papers) == len(FACTS) == 36
    assert {paper["id"] for paper in papers} == {fact["id"] for fact in FACTS}


def test_facts_are_arxivs(papers: list[dict[str, Any]], facts: dict[str, dict[str, Any]]) -> None:
    for paper in papers:
        fact, entry = facts[paper["id"]], paper["entry"]
        assert paper["title"] == fact["title"]
        assert entry.author == ", ".join(fact["authors"])
        assert [tag.term for tag in entry.tags] == fact["categories"]


def test_items_have_arxivs_form(
    papers: list[dict[str, Any]], facts: dict[str, dict[str, Any]]
) -> None:
    for paper in papers:
        entry = paper["entry"]
        assert entry.id == f"oai:arXiv.org:{paper['id']}"
        assert entry.guidislink is False
        assert entry.link == f"https://arxiv.org/abs/{paper['id'].removesuffix('v1')}"
        assert entry.published == "Thu, 18 Dec 2025 00:00:00 -0500"
        assert entry.arxiv_announce_type == paper["type"] == facts[paper["id"]]["type"]


def test_abstracts_have_the_length_of_abstracts(papers: list[dict[str, Any]]) -> None:
    lengths = {paper["id"]: len(paper["abstract"].split()) for paper in papers}
    assert {id_: n for id_, n in lengths.items() if not 60 <= n <= 120} == {}


def test_tex_is_balanced_and_present(papers: list[dict[str, Any]]) -> None:
    dollars = {paper["id"]: paper["abstract"].count("$") for paper in papers}
    assert all(n % 2 == 0 for n in dollars.values()), dollars
    assert sum(n > 0 for n in dollars.values()) >= 5


def test_each_paper_has_the_seeds_score(
    papers: list[dict[str, Any]], facts: dict[str, dict[str, Any]]
) -> None:
    scores = {paper["id"]: seed_score(paper["title"], paper["abstract"]) for paper in papers}
    assert scores == {id_: fact["seed_score"] for id_, fact in facts.items()}


def test_a_stable_sort_gives_the_seeds_order(
    papers: list[dict[str, Any]], facts: dict[str, dict[str, Any]]
) -> None:
    ranked = sorted(papers, key=lambda p: -seed_score(p["title"], p["abstract"]))
    assert [facts[paper["id"]]["rank"] for paper in ranked] == list(range(1, 37))
