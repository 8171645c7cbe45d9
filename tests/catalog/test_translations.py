"""What a method says of itself, and why a verdict is what it is, in Chinese."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.translation import override

from methods import registry
from webapp.runs import texts

pytestmark = pytest.mark.django_db
METHODS = ("concept_lm", "seps", "sparse_attention", "token_pruning")


@pytest.fixture
def afresh() -> Iterator[None]:
    texts._texts.cache_clear()
    yield
    texts._texts.cache_clear()


@pytest.mark.parametrize("slug", METHODS)
def test_a_method_page_is_read_in_chinese(client: Client, slug: str) -> None:
    call_command("import_results", f"benchmarks/results/{slug}", stdout=StringIO())
    file = registry.folder(slug) / "texts.zh.toml"
    chinese = {" ".join(k.split()): v for k, v in tomllib.loads(file.read_text()).items()}
    method = registry.get(slug)
    page = client.get(f"/methods/{slug}/?lang=zh-hans").content.decode()
    for english in (method.title, method.description, *(one.text for one in method.claims)):
        # A formula is drawn, so texts with one are compared up to it.
        shown = chinese[" ".join(english.split())].split("O(")[0].split("<")[0]
        assert shown in page
        assert english.strip()[:60] not in page.replace("\n", " ")
    assert method.title in client.get(f"/methods/{slug}/?lang=en").content.decode()
    assert chinese[method.title] in client.get("/methods/?lang=zh-hans").content.decode()
    # The API is for programs: in English, whatever the browser says.
    told = client.get("/api/v1/methods", headers={"Accept-Language": "zh-CN"})
    assert method.title in told.content.decode()
    assert chinese[method.title] not in told.content.decode()


def test_a_text_that_lags_behind_is_shown_in_english_and_breaks_nothing(
    afresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    with override("zh-hans"):
        assert texts.said("Decoding speed") == "解码速度"
        assert texts.said("  Decoding\n speed ") == "解码速度"
        assert texts.said("Decoding speed, since changed") == "Decoding speed, since changed"
        assert texts.said("") == ""
        monkeypatch.setattr(registry, "folder", lambda slug: tmp_path)
        texts._texts.cache_clear()
        assert texts.said("Decoding speed") == "Decoding speed"
    with override("en"):
        assert texts.said("Decoding speed") == "Decoding speed"
