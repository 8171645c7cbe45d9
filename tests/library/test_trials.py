"""An administrator tries what they connected, and reads what was found."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests import factories
from tests.mail.conftest import Inbox, inbox  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db
ADDRESS = "/first-steps/"


@pytest.fixture
def administrator(client: Client) -> User:
    made = User.objects.create_superuser("root", "root@home.example")
    client.force_login(made)
    return made


def tried(client: Client, what: str) -> str:
    return client.post(ADDRESS, {"try": what}, follow=True).content.decode()


def answers(request: Request) -> Response:
    """A model that holds to a schema and knows no Chinese."""
    asked = json.loads(request.get_data())
    text = '{"assay_probe": "granted"}' if "response_format" in asked else "It is about boats."
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return Response(json.dumps({"choices": [choice], "usage": usage}))


@pytest.mark.usefixtures("administrator")
def test_a_model_is_tried(client: Client, httpserver: HTTPServer, settings: Any) -> None:
    factories.make_paper(1, abstract="Boats. " * 30)
    httpserver.expect_request("/v1/chat/completions").respond_with_handler(answers)
    settings.OPENAI_BASE_URL, settings.SUMMARY_MODEL = httpserver.url_for("/v1"), "small"
    page = tried(client, "model")
    assert "The server enforces a JSON schema." in page
    assert "100 tokens in, 7 out: “It is about boats.”" in page
    assert re.search(r"Chinese: [^<]+ Wrong language\.", page)
    assert page.count("Wrong language.") == 1
    assert "A whole paper takes at most about" in page
    httpserver.clear()
    assert "It does not work: the model" in tried(client, "model")


@pytest.mark.usefixtures("administrator")
def test_mail_is_tried(client: Client, inbox: Inbox) -> None:  # noqa: F811
    assert "accepted a mail to root@home.example" in tried(client, "mail")
    assert inbox.mails[0]["Subject"] == "Mail works"
    inbox.refuse = True
    assert "It does not work: (451" in tried(client, "mail")


def test_a_reader_tries_nothing(client: Client, settings: Any) -> None:
    settings.SUMMARY_MODEL = "small"
    client.force_login(factories.make_reader())
    for what in ("model", "mail"):
        assert client.post(ADDRESS, {"try": what}).status_code == 403
