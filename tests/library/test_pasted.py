"""Pasted text is read part by part, and each part gets an answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.digests.days import MONDAY, TUESDAY, announce, paper
from webapp.library.pasted import MAX_PARTS, understand
from webapp.library.references import is_export

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _papers() -> None:
    def named(*names: str) -> list[dict[str, str]]:
        return [{"name": name, "affiliation": ""} for name in names]

    announce(
        MONDAY,
        paper(1, "Scaling laws, in short", authors=named("Zheng Zhang", "Ada Cole")),
        paper(2, "Reward models for agents", authors=named("Zoe Zhang", "Ben Dale")),
        paper(3, "Reading scalp electrodes", authors=named("Zoe Zhang", "Ben Dale")),
        paper(4, "Retrieval of code with few examples", authors=named("Jean-Luc O’Neil")),
    )


def kinds(text: str) -> list[tuple[str, str]]:
    return [(part.text, part.kind) for part in understand(text).parts]


def found(text: str) -> list[str]:
    return sorted(paper.arxiv_id for paper in understand(text).papers)


@pytest.mark.parametrize("text", ["Joerg Mueller", "Jörg Müller", "J. Mueller", "Jorg Muller"])
def test_an_author_is_named_with_or_without_dots(text: str) -> None:
    announce(TUESDAY, paper(5, "Owls", authors=[{"name": "Jörg Müller", "affiliation": ""}]))
    assert kinds(text) == [(text, "author")]


def test_a_list_of_topics_is_a_word_each() -> None:
    expected = [("LLM agents", "words"), ("RAG", "words"), ("reward models", "words")]
    assert kinds("LLM agents, RAG, reward models") == expected
    for text in (
        "LLM agents;RAG ; reward models.",
        "- LLM agents\n- RAG\n\n* reward models",
        "1. LLM agents\n2. “RAG”\n3. reward models\nRAG",
        "LLM agents，RAG、reward models",
    ):
        assert kinds(text) == expected, text


@pytest.mark.parametrize(
    "text",
    [
        "2603.00001,2603.00003",
        "2603.00001, 2603.00003,2603.00001",
        "https://arxiv.org/abs/2603.00001v2\narXiv:2603.00003",
        "2603.00001 2603.00003",
        "2603.00001;https://arxiv.org/pdf/2603.00003.pdf",
        "Scaling laws, in short\nreading scalp electrodes",
        "@misc{a, title={X}, eprint={2603.00001}} @misc{b, title={Y}, eprint={2603.00003}}",
    ],
)
def test_papers_are_found_however_they_are_named(text: str) -> None:
    assert found(text) == ["2603.00001", "2603.00003"]
    assert not understand(text).keywords


def test_a_paper_that_is_not_here_is_told_apart() -> None:
    (part,) = understand("2603.00001 2603.99991").parts
    assert [paper.arxiv_id for paper in part.papers] == ["2603.00001"]
    assert part.unknown == ("2603.99991",)


@pytest.mark.parametrize("name", ["Z. Zhang", "Z Zhang", "author:Z. Zhang", "author: Z. Zhang"])
def test_homonyms_are_listed_with_categories_and_coauthors(name: str) -> None:
    (part,) = understand(name).parts
    assert part.kind == "author"
    people = [(person.name, person.papers, person.coauthors) for person in part.authors]
    assert people == [("Zoe Zhang", 2, ("Ben Dale",)), ("Zheng Zhang", 1, ("Ada Cole",))]
    assert part.authors[0].categories == ("cs.CL",)
    assert part.papers == ()  # nobody's papers are liked before it is known who is meant


@pytest.mark.parametrize("name", ["Zoe Zhang", "zoe zhang", "author:Zoe Zhang"])
def test_one_authors_papers_count_as_liked(name: str) -> None:
    understood = understand(name)
    assert [person.name for person in understood.authors] == ["Zoe Zhang"]
    assert found(name) == ["2603.00002", "2603.00003"]


def test_a_name_that_nobody_has_is_missing_and_words_are_words() -> None:
    assert kinds("Q. Nobody\nMixture of Experts\nNobody") == [
        ("Q. Nobody", "missing"),
        ("Mixture of Experts", "words"),
        ("Nobody", "words"),
    ]


@pytest.mark.parametrize(
    "name", ["Ludwig van der Noot", "Émile Zátopek", "Wei-Lin Q. Ōta", "Yann LeCun"]
)
def test_who_is_unknown_may_be_an_author(name: str) -> None:
    """arXiv is asked, and both the words and the name are looked for in new papers."""
    understood = understand(f"RAG; {name}")
    assert [part.kind for part in understood.parts] == ["words", "name"]
    assert understood.missing == [name]
    assert understood.keywords == ["RAG", name, f"author:{name}"]


@pytest.mark.parametrize("topic", ["LLM Agents", "Mixture of Experts", "Reward Models", "RAG"])
def test_topics_in_capitals_are_no_names(topic: str) -> None:
    assert kinds(topic) == [(topic, "words")]


@pytest.mark.parametrize(
    ("text", "categories"),
    [
        ("cs.CL cs.SD", ["cs.CL", "cs.SD"]),
        ("cs.cl, CS.SD", ["cs.CL", "cs.SD"]),
        ("quant-ph and hep-th", ["quant-ph", "hep-th"]),
        ("cond-mat.str-el & physics.optics", ["cond-mat.str-el", "physics.optics"]),
        ("q-bio.nc + astro-ph.GA", ["q-bio.NC", "astro-ph.GA"]),
        ("math, physics, and, node.js, cs.txt", []),
    ],
)  # fmt: skip
def test_categories_are_no_topics(text: str, categories: list[str]) -> None:
    assert understand(text).categories == categories


@pytest.mark.parametrize(
    ("text", "topics", "excluded"),
    [
        ("transformers, not vision; no proteins", ["transformers"], ["vision", "proteins"]),
        ("but not RAG\nexcept for agents\nExcluding code", [], ["RAG", "agents", "code"]),
        ("RAG, -code, few-shot", ["RAG", "few-shot"], ["code"]),
        ("- RAG\n-code", ["RAG", "code"], []),  # a list with bullets
        ("in short", ["in short"], []),
    ],
)  # fmt: skip
def test_topics_that_a_feed_leaves_out(text: str, topics: list[str], excluded: list[str]) -> None:
    understood = understand(text)
    assert (understood.keywords, understood.excluded) == (topics, excluded)


def test_a_topic_that_begins_with_no_is_one_where_papers_have_it() -> None:
    announce(MONDAY, paper(5, "There is no free lunch for pruners"))
    understood = understand("no free lunch, no pruning")
    assert (understood.keywords, understood.excluded) == (["no free lunch"], ["pruning"])


@pytest.mark.parametrize(
    "address", ["https://scholar.google.com/citations?user=a", "www.example.org"]
)
def test_an_address_without_a_paper_is_no_topic(address: str) -> None:
    (part,) = understand(address).parts
    assert (part.kind, part.problem) == ("refused", "names no arXiv paper")


def test_a_sentence_is_a_described_interest() -> None:
    text = "I work on the retrieval of code, mostly where there are few examples."
    understood = understand(text)
    assert [part.kind for part in understood.parts] == ["interest"]
    assert understood.parts[0].papers[0].arxiv_id == "2603.00004"
    assert found(text) == []  # examples, which the list may still show
    assert list(understood.texts) == [text]


def test_what_cannot_be_used_says_why_and_leaves_nothing() -> None:
    understood = understand("!!!\na*")
    assert [part.kind for part in understood.parts] == ["refused", "refused"]
    assert understood.parts[0].problem == "contains no letter and no digit"
    assert not understood.keywords
    assert not understood.papers


def test_a_zotero_address_leads_to_its_page() -> None:
    assert understand("https://www.zotero.org/ada/library").is_zotero


def test_the_number_of_parts_is_bounded() -> None:
    understood = understand("\n".join(f"topic {number}" for number in range(300)))
    assert len(understood.parts) == MAX_PARTS
    assert understood.is_cut


WORDS = re.compile(r"[^\W\d_]+")
dirt = st.text(st.sampled_from(list("ab ,;.\n\t\"'()[]{}@%:*|/\\-+0126é—，。arxivZ")), max_size=60)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(dirt)
def test_every_word_of_a_text_is_answered(text: str) -> None:
    parts = understand(text).parts
    if is_export(text):
        assert [(part.text, part.kind) for part in parts] == [("", "papers")]
        return
    answered = " ".join(part.text for part in parts).casefold()
    assert set(WORDS.findall(text.casefold())) <= set(WORDS.findall(answered))
