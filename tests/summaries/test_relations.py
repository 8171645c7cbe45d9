"""A model's answer to the question of the relation counts as evidence where its quote stands."""

from __future__ import annotations

import pytest
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.test_summarise import summarised
from webapp.catalog import linking
from webapp.catalog.models import MethodLink
from webapp.papers.models import Paper
from webapp.summaries.models import Summary

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def paper() -> Paper:
    """One that says the words of sparse attention in its abstract already."""
    return Paper.objects.create(
        arxiv_id="2512.00001",
        title="Stride attention",
        abstract="Our sparse attention folds strides into heads. It is 3.5x faster.",
        primary_category="cs.LG",
    )


def score(paper: Paper) -> float:
    linking.link(Paper.objects.all())
    link = MethodLink.objects.filter(paper=paper, method="sparse_attention").first()
    return link.score if link else 0.0


@pytest.fixture
def before(paper: Paper) -> float:
    return score(paper)


def evidence(paper: Paper) -> list[str]:
    link = MethodLink.objects.filter(paper=paper, method="sparse_attention").first()
    return [one["words"] for one in link.evidence if one["place"] == "answer"] if link else []


def test_an_answer_with_a_quote_of_the_full_text_makes_the_link_likelier(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, before: float
) -> None:
    model.scenario = "related"
    assert summarised(paper).state == "done"
    assert score(paper) > before
    (quote,) = evidence(paper)
    assert "strides of a sparse attention" in quote
    assert quote not in paper.abstract


def test_an_answer_against_it_makes_it_less_likely(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, before: float
) -> None:
    model.scenario = "unrelated"
    assert summarised(paper).state == "done"
    assert score(paper) < before


@pytest.mark.parametrize(
    "scenario",
    ["related_by_invention", "related_by_a_word", "related_to_nothing", "no_relations", "good"],
)
def test_an_answer_without_a_quote_that_stands_changes_nothing(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, before: float, scenario: str
) -> None:
    model.scenario = scenario
    assert summarised(paper).state == "done"
    assert score(paper) == before
    assert evidence(paper) == []


@pytest.mark.parametrize("scenario", ["relation_of_no_kind", "truncated", "empty", "401", "503"])
def test_a_failure_of_the_model_changes_no_link(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, before: float, scenario: str
) -> None:
    model.scenario = scenario
    assert summarised(paper).state in {"failed", "waiting"}
    assert score(paper) == before


def test_an_answer_on_an_older_version_no_longer_counts(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, before: float
) -> None:
    model.scenario = "related"
    summarised(paper)
    Paper.objects.update(version=2)
    assert score(paper) == before


def test_a_tick_links_what_a_model_has_answered_since_the_last_one(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    linking.link_new()
    model.scenario = "related"
    summarised(paper)
    assert Summary.objects.get().content["relations"]
    assert linking.link_new() == 1
    assert linking.link_new() == 0


def test_the_families_are_in_the_one_call(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    summarised(paper)
    assert model.summaries_asked == 1
    asked = [m["content"] for r in model.requests for m in r["messages"]]
    assert any("- sparse_attention: Attention in which a query sees few keys" in c for c in asked)
