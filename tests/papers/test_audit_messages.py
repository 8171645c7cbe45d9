"""Why a day was not fetched, in the reader's language."""

from __future__ import annotations

import re
import socket
from datetime import date

import pytest
from django.test import Client
from django.utils import translation

from tests.digests.days import listing
from webapp.papers import arxiv_api, fetch, polling
from webapp.papers.audit_messages import translate_reason
from webapp.papers.sample import load_sample

OFFLINE = "rss.arxiv.org cannot be reached: its name is not found (this machine may be offline)"
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (OFFLINE, "无法连接 rss.arxiv.org：找不到该主机名"),
        (f"{OFFLINE}.", "无法连接 rss.arxiv.org：找不到该主机名"),
        (
            "RSS: export.arxiv.org answers HTTP 503: Sorry",
            "RSS: export.arxiv.org 返回 HTTP 503：Sorry",
        ),
        ("rss.arxiv.org asks us to wait 600 s (HTTP 429)", "要求等待 600 秒"),
        (
            "RSS: the feed is cut off before its end; next request to arXiv in 30 s",
            "RSS: 订阅源在结尾之前中断；30 秒后",
        ),
        ("arXiv still serves the batch of Tuesday 2026-03-03", "星期二（2026-03-03）"),
    ],
)
def test_a_reason_is_in_the_readers_language(reason: str, words: str) -> None:
    assert translate_reason(reason) == reason
    with translation.override("zh-hans"):
        assert words in translate_reason(reason)


def test_what_has_no_known_form_stays_as_it_is() -> None:
    with translation.override("zh-hans"):
        for reason in ("", "failed", "who knows; %(host)s\n<b>", "; "):
            assert translate_reason(reason) == reason


def test_what_the_code_says_has_a_known_form(db: None) -> None:
    """The same sentences stand in the code that meets them: these change together."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with pytest.raises(fetch.OutOfReachError) as refused:
        fetch._request(f"http://127.0.0.1:{port}/", {})
    answer = fetch.HttpAnswer("http://arxiv.example/", 503, {}, b"")
    said = [
        str(refused.value),
        str(fetch._refusal(answer, 30.0)),
        str(fetch._refusal(answer, None)),
        polling._empty_reason(date(2026, 3, 7)),
        *polling._empty_reason(date(2026, 3, 6)).split("; "),
        arxiv_api.NOTE,
    ]
    with translation.override("zh-hans"):
        assert [reason for reason in said if not CHINESE.search(translate_reason(reason))] == []


def test_a_page_without_arxiv_is_in_one_language(client: Client, db: None) -> None:
    listing(date(2026, 3, 2), state="failed", source="rss", reason=OFFLINE)
    load_sample(OFFLINE)
    page = client.get("/intake/", headers={"accept-language": "zh-CN"}).content.decode()
    assert "找不到该主机名" in page
    assert "cannot be reached" not in page
