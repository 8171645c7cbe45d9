"""A reader's requests are summarised before the site's own choice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests import factories
from tests.servers.openai import OpenAIServer, paper_of
from webapp.papers.models import Paper
from webapp.summaries import queue
from webapp.summaries.client import Server
from webapp.summaries.models import FullText, Summary
from workers.site import tasks

pytestmark = pytest.mark.django_db(transaction=True)


def papers() -> list[Paper]:
    made = []
    for number in range(4):
        text = f"Paper number {number} has a method. It is {number}.5x faster than dense."
        paper = factories.make_paper(number, abstract=text)
        FullText.objects.create(
            paper=paper,
            version=paper.version,
            source="abstract",
            sections=[{"title": "Abstract", "text": text}],
            sha256="0" * 64,
            fetched_at=paper.submitted_at,
        )
        made.append(paper)
    return made


def asked_of(model: OpenAIServer) -> list[str]:
    """The numbers of the papers that the model was asked about, in order."""
    texts = map(paper_of, model.requests)
    return [found[1] for text in texts if (found := re.search(r"Paper number (\d)", text))]


@pytest.mark.parametrize("state", ["new", "waiting", "failed", "done"])
def test_a_reader_waits_for_nothing_that_nobody_waits_for(
    state: str, client: Client, model: OpenAIServer, settings: Any
) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"  # messages are sent by this test
    made, server = papers(), Server.configured()
    assert server
    queue.request(made[:3], "en", server)
    sent = queue.ready()
    wanted = made[3]
    if state != "new":
        queue.request([wanted], "en", server)
    if state == "failed":
        Summary.objects.filter(paper=wanted).update(state=state)
    if state == "done":
        tasks.summarise_paper(queue.ready()[-1])
        model.requests.clear()
    client.force_login(factories.make_reader())
    again = {"again": "1"} if state == "done" else {}
    client.post(reverse("summaries:ask", args=[wanted.arxiv_id]), {"language": "en", **again})
    # Those that nobody asked for are on the queue already, before it.
    for summary_id in [*sent, *queue.ready()]:
        tasks.summarise_paper(summary_id)
    summary = Summary.objects.get(paper=wanted)
    assert (summary.state, summary.reason) == ("done", "")
    assert summary.claims.exists()
    assert not Summary.objects.exclude(state="done").exists(), "none is forgotten"
    first, *others = asked_of(model)
    assert (first, sorted(others)) == ("3", ["0", "1", "2"])


def test_what_a_reader_asked_for_once_is_not_first_for_ever(
    client: Client, model: OpenAIServer, settings: Any
) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    made, server = papers(), Server.configured()
    assert server
    client.force_login(factories.make_reader())
    client.post(reverse("summaries:ask", args=[made[3].arxiv_id]), {"language": "en"})
    tasks.summarise_paper(queue.ready()[0])
    queue.again(made, "en", server)  # by an administrator, all of a day
    client.post(reverse("summaries:ask", args=[made[0].arxiv_id]), {"language": "en"})
    model.requests.clear()
    tasks.summarise_paper(queue.ready()[-1])
    assert asked_of(model) == ["0"]
