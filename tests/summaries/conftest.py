"""A paper, arXiv's page of it, and a server of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from webapp.papers.models import Paper

HTML = """<html><body><nav>Menu 123.4</nav><article class="ltx_document">
<h1 class="ltx_title">Stride attention</h1>
<div class="ltx_abstract"><h6>Abstract</h6><p>We fold the strides of a sparse attention into its
heads, so that one dense kernel computes it. The method is 3.5× faster at 4,096 tokens.</p></div>
<section class="ltx_section"><h2>1 Introduction</h2><p>Attention over <math alttext="n"><mi>n</mi>
</math> tokens costs <math alttext="O(n^{2})"><mi>x</mi></math> operations. {filler}</p></section>
<section class="ltx_section"><h2>2 Results</h2><p>Accuracy rises from 74.97 to 79.66 percent on the
long task, and the cache needs 83.6% less memory than that of the dense model.</p>
<table><tr><th>Model</th><th>Accuracy</th></tr><tr><td>ours</td><td>79.66</td></tr></table></section>
<section class="ltx_bibliography"><h2>References</h2><p>Somebody, 1999. 555.5 pages.</p></section>
</article></body></html>""".replace("{filler}", "Many have tried to make it cheaper. " * 30)


@pytest.fixture
def arxiv(httpserver: HTTPServer, settings: Any) -> HTTPServer:
    settings.ARXIV_SITE_URL = httpserver.url_for("").rstrip("/")
    settings.ARXIV_SECONDS = 0
    httpserver.expect_request("/html/2512.00001v1").respond_with_data(
        HTML, content_type="text/html"
    )
    return httpserver


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
        yield server


@pytest.fixture
def paper() -> Paper:
    return Paper.objects.create(
        arxiv_id="2512.00001",
        title="Stride attention",
        abstract="We fold strides into heads. The method is 3.5x faster at 4,096 tokens.",
        primary_category="cs.LG",
    )
