"""A morning is posted to Slack or Feishu by the script of the documents, against their rules."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests import factories
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = ROOT / "docs" / "post_a_morning.py"
SECRET = "robot-secret"


@pytest.fixture(autouse=True)
def day() -> None:
    papers = [factories.make_paper(n, title=f"A & <b>{n}</b> " + "x" * 900) for n in range(1, 61)]
    factories.make_listing()
    factories.make_digest(factories.make_profile(), papers)


def slack_rules(request: Request) -> Response:
    """https://docs.slack.dev: incoming webhooks, the limits of blocks, and escaping."""
    try:
        message = json.loads(request.data)
    except ValueError:
        return Response("invalid_payload", 400)
    if not message.get("text"):
        return Response("no_text", 400)
    blocks = message.get("blocks", [])
    if len(blocks) > 50 or any(len(one["text"]["text"]) > 3000 for one in blocks):
        return Response("invalid_blocks", 400)
    if any("<b>" in one["text"]["text"] for one in blocks):
        return Response("invalid_blocks: not escaped", 400)
    return Response("ok")


def feishu_rules(request: Request) -> Response:
    """Custom robots of Feishu: at most 20 KB, signed with the time of now; refusals are 200s."""
    message = json.loads(request.data)
    if len(request.data) > 20_000:
        return Response(json.dumps({"code": 9499, "msg": "too large"}))
    key = f"{message.get('timestamp')}\n{SECRET}".encode()
    sign = base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()
    is_late = abs(time.time() - int(message.get("timestamp", 0))) > 3600
    if message.get("sign") != sign or is_late:
        return Response(json.dumps({"code": 19021, "msg": "sign match fail"}))
    if message["msg_type"] != "post" or not message["content"]["post"]["zh_cn"]["content"]:
        return Response(json.dumps({"code": 9499, "msg": "Bad Request"}))
    return Response(json.dumps({"code": 0, "msg": "success"}))


SLACK, FEISHU = "/services/T0/B0/x", "/open-apis/bot/v2/hook/x"


@pytest.fixture
def run(
    live_server: LiveServer, httpserver: HTTPServer
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def called(path: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, str(SCRIPT), live_server.url, httpserver.url_for(path), *more]
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)

    return called


def test_a_morning_in_slack_once_a_day(
    run: Callable[..., subprocess.CompletedProcess[str]], httpserver: HTTPServer, tmp_path: Path
) -> None:
    httpserver.expect_ordered_request(SLACK).respond_with_data(
        "rate_limited", 429, {"Retry-After": "1"}
    )
    httpserver.expect_ordered_request(SLACK, method="POST").respond_with_handler(slack_rules)
    state = tmp_path / "posted"
    done = run(SLACK, "--count", "60", "--state", str(state))
    assert (done.returncode, done.stderr) == (0, "")
    sent = json.loads(httpserver.log[-1][0].data)
    assert len(sent["blocks"]) == 50  # a header and 49 papers
    assert "/papers/2603.00001/|A &amp; &lt;b&gt;1" in sent["blocks"][1]["text"]["text"]
    assert run(SLACK, "--state", str(state)).returncode == 0
    assert len(httpserver.log) == 2  # nothing more


def test_a_morning_in_feishu_signed_and_small_enough(
    run: Callable[..., subprocess.CompletedProcess[str]], httpserver: HTTPServer
) -> None:
    busy = json.dumps({"code": 11232, "msg": "frequency limited"})
    httpserver.expect_ordered_request(FEISHU).respond_with_data(busy)
    httpserver.expect_ordered_request(FEISHU, method="POST").respond_with_handler(feishu_rules)
    done = run(FEISHU, "--count", "60", FEISHU_SECRET=SECRET)
    assert (done.returncode, done.stderr) == (0, "")
    lines = json.loads(httpserver.log[-1][0].data)["content"]["post"]["zh_cn"]["content"]
    assert 5 < len(lines) < 60
    assert lines[0][0]["href"].endswith("/papers/2603.00001/")


@pytest.mark.parametrize(
    "case",
    [
        (SLACK, (), "invalid_token"),
        (FEISHU, (), "sign match fail"),
        (SLACK, ("--profile", "nobody"), "404"),
    ],
)
def test_a_refusal_is_told_and_nothing_counts_as_posted(
    run: Callable[..., subprocess.CompletedProcess[str]],
    httpserver: HTTPServer,
    tmp_path: Path,
    case: tuple[str, tuple[str, ...], str],
) -> None:
    path, more, reason = case
    httpserver.expect_request(SLACK).respond_with_data("invalid_token", 403)
    httpserver.expect_request(FEISHU).respond_with_handler(feishu_rules)
    done = run(path, *more, "--state", str(tmp_path / "posted"), FEISHU_SECRET="wrong")
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "posted").exists()
