"""Chinese pages have no blanks between sentences, and what readers wrote keeps its own."""

from __future__ import annotations

import re
from functools import partial

import pytest
from django.test import Client

from tests import factories
from tests.clock import processor_seconds
from webapp.ui.typography import without_blanks


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("<p>一。\n  二。 </p>", "<p>一。二。</p>"),
        ("<b>可以。</b>\n 论文：\n <span class='m'>\n <a href='/x'>3×</a>", ""),
        ("<p>One. Two, three</p>", "<p>One. Two, three</p>"),
        ("<textarea>一。\n\n二。 三</textarea>", "<textarea>一。\n\n二。 三</textarea>"),
        ("<pre>一： 二</pre>", "<pre>一： 二</pre>"),
        ("<input value='一， 二'>", "<input value='一， 二'>"),
    ],
)
def test_white_space_goes_only_after_punctuation_of_text(html: str, shown: str) -> None:
    expected = shown or "<b>可以。</b>论文：<span class='m'><a href='/x'>3×</a>"
    assert without_blanks(html) == expected


def test_a_page_is_set_in_linear_time() -> None:
    spent = []
    for size in (20_000, 80_000):
        html = "。" + "<a>" * size + "，" + " " * size + "<textarea>" * 20 + "<" * 20
        within = 12 * spent[0] + 0.1 if spent else 0.0
        spent.append(processor_seconds(partial(without_blanks, html), within))
    assert spent[1] < 12 * spent[0] + 0.1


@pytest.mark.django_db
def test_a_day_in_chinese_has_no_blanks_between_sentences(client: Client) -> None:
    factories.make_day(2)
    page = client.get("/?lang=zh-hans").content.decode()
    head = page[page.index('class="line"') : page.index('id="cards"')]
    assert "篇。更新于" in head
    assert not re.search(r"[。；]\s", re.sub(r"<[^>]*>", "", head.replace("</p>", "|")))
