"""`manage.py summarise` as a person runs it, against servers of arXiv's pages and of a model."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from webapp.papers.models import Paper
from webapp.summaries.models import Summary

pytestmark = pytest.mark.django_db(transaction=True)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("summarise", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_a_paper_in_a_language(arxiv: HTTPServer, model: OpenAIServer, paper: Paper) -> None:
    said = run("--paper", paper.arxiv_id, "--language", "zh")
    assert "done" in said
    assert list(Summary.objects.values_list("language", "state")) == [("zh", "done")]


def test_again_costs_nothing(arxiv: HTTPServer, model: OpenAIServer, paper: Paper) -> None:
    run("--paper", paper.arxiv_id)
    asked = len(model.requests)
    run("--paper", paper.arxiv_id)
    assert len(model.requests) == asked


def test_a_failure_is_an_error_and_is_retried_on_demand(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    model.scenario = "401"
    with pytest.raises(CommandError, match="1 failed; --retry"):
        run("--paper", paper.arxiv_id)
    model.scenario = "good"
    with pytest.raises(CommandError, match="1 failed"):
        run("--paper", paper.arxiv_id)
    assert "done" in run("--paper", paper.arxiv_id, "--retry")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--paper", "2512.99999"), "No such paper on this site: 2512.99999"),
        (("--date", "2001-01-01"), "No papers were announced on 2001-01-01"),
        ((), "No papers yet: manage.py fetch"),
    ],
)
def test_what_cannot_be_summarised_is_said(
    model: OpenAIServer, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError, match=words) as error:
        run(*arguments)
    assert error.value.returncode == 2


def test_without_a_model_it_says_what_to_set() -> None:
    with pytest.raises(CommandError, match="Set ASSAY_SUMMARY_MODEL") as error:
        run()
    assert error.value.returncode == 2
