"""Descriptions of methods and reasons of verdicts, in Chinese."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils.translation import override

from methods import registry
from webapp.runs import texts
from webapp.runs.models import Run

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
    # The figure, what was counted and what the best figure is of.
    figure = page[page.index('<svg class="mechanism"') :].partition("</svg>")[0]
    drawn = re.findall(r">([^<>]+)</(?:text|title|desc)>", figure)
    assert len(drawn) > 6
    assert not [words for words in drawn if re.search(r"[A-Za-z]{5,}", words.replace("token", ""))]
    assert not re.search(r"计数得出：[A-Za-z]", page)
    measured = re.findall(r'<span class="measured">\s*(.*?)<a', page, re.DOTALL)
    assert not [words for words in measured if re.search("[A-Za-z]{4}", words)]
    # The API is for programs: in English, whatever the browser says.
    told = client.get("/api/v1/methods", headers={"Accept-Language": "zh-CN"})
    assert method.title in told.content.decode()
    assert chinese[method.title] not in told.content.decode()


def test_a_text_that_lags_behind_is_shown_in_english_and_breaks_nothing(
    afresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    with override("zh-hans"):
        assert texts.translate_spec("Decoding speed") == "解码速度"
        assert texts.translate_spec("  Decoding\n speed ") == "解码速度"
        assert (
            texts.translate_spec("Decoding speed, since changed") == "Decoding speed, since changed"
        )
        assert texts.translate_spec("") == ""
        monkeypatch.setattr(registry, "folder", lambda slug: tmp_path)
        texts._texts.cache_clear()
        assert texts.translate_spec("Decoding speed") == "Decoding speed"
    with override("en"):
        assert texts.translate_spec("Decoding speed") == "Decoding speed"


def test_words_that_a_run_puts_into_a_text_stay_in_its_translation() -> None:
    with override("zh-hans"):
        assert texts.translate_spec("Time of the similarity, 32 words") == "相似度的时间，32 个词"
        # A word that was put in is looked up, too; numbers with marks of their own stay.
        said = texts.translate_spec("Forward and backward: 6 heads of 64, float32")
        assert said == "前向与反向：6 个宽 64 的头，float32"
        said = texts.translate_spec("What counted operations allow at 16,384 tokens")
        assert said == "按运算次数，16,384 个 token 时所允许的"
        assert (
            texts.translate_spec("Time of the similarity, words") == "Time of the similarity, words"
        )
    with override("en"):
        assert (
            texts.translate_spec("Time of the similarity, 32 words")
            == "Time of the similarity, 32 words"
        )


def test_charts_and_tables_of_a_run_are_read_in_chinese_and_its_files_in_english(
    client: Client,
) -> None:
    call_command("import_results", "benchmarks/results/seps", stdout=StringIO())
    run = Run.objects.filter(method="seps", benchmark="cost").latest("finished_at")
    page = client.get(f"/runs/{run.pk}/?lang=zh-hans").content.decode()
    english = client.get(f"/runs/{run.pk}/?lang=en").content.decode()
    for chinese, text in {
        "描述的词数": "words of a caption",
        "我们的，两种文本": "ours, two texts",
        "越高越好": "higher is better",
        "每条描述对每张图像": "Every caption with every image",
    }.items():
        assert (chinese in page, text in page) == (True, False)
        assert (chinese in english, text in english) == (False, True)
    for suffix in ("json", "csv"):
        file = client.get(f"/runs/{run.pk}/results.{suffix}", headers={"Accept-Language": "zh-CN"})
        told = b"".join(file) if file.streaming else file.content
        assert "words of a caption" in told.decode()


def test_the_form_of_a_run_explains_its_parameters_in_chinese(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    page = client.get("/methods/seps/run/cost/?lang=zh-hans").content.decode()
    assert "图像数，描述数相同。" in page
    assert "项，每项：" in page
    assert "每个比值的区间半宽小于此值时结束测量。数," in page
    assert not re.findall(r"Integer from|All presets|each:", page)
