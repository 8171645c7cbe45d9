"""Claims and first sentences of a model, held against the tables of the paper."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.test_careless import answer, claim
from tests.summaries.test_grounded import claims_shown, shown
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db(transaction=True)

ABSTRACT = "We present Sieve, which drops cached keys. It is evaluated on long contexts."
ROWS = (
    ("Method", "LongBench ↑", "RULER ↑", "PPL ↓"),
    ("Full cache", "48.2", "91.4", "8.21"),
    ("H2O", "41.7", "74.6", "9.05"),
    ("SnapKV", "45.9", "83.1", "8.47"),
    ("Sieve (ours)", "46.8", "80.3", "8.34"),
)
TABLE = "".join(
    "<tr class='ltx_tr'>"
    + "".join(
        f"<td class='ltx_td{' ltx_border_t' if number == 1 else ''}'>{text}</td>" for text in row
    )
    + "</tr>"
    for number, row in enumerate(ROWS)
)
HTML = f"""<article class="ltx_document"><h1 class="ltx_title">Sieve</h1>
<section class="ltx_section"><h2>1 Introduction</h2>
<p>{"Caches grow with every token that is read. " * 20}</p></section>
<section class="ltx_section"><h2>5 Results</h2><p>Table 1 has the results. On NIAH, Sieve falls
by −9% against the full cache.</p>
<figure class="ltx_table" id="S5.T1"><figcaption class="ltx_caption">Table 1: Main results.
</figcaption><table class="ltx_tabular">{TABLE}</table></figure></section></article>"""
SIEVE, SNAP = "| Sieve (ours) | 46.8 | 80.3 | 8.34 |", "| SnapKV | 45.9 | 83.1 | 8.47 |"


@pytest.fixture
def paper(arxiv: HTTPServer) -> Paper:
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(HTML, content_type="text/html")
    return Paper.objects.create(
        arxiv_id="2512.00001",
        title="Sieve: pruning caches",
        abstract=ABSTRACT,
        primary_category="cs.CL",
    )


TRUE = [
    claim("score", "46.8", "", SIEVE, subject="Sieve", setting="LongBench"),
    claim("RULER", "80.3", "", SIEVE, subject="Sieve"),
    claim("PPL", "8.34", "", SIEVE, subject="Sieve", direction="lower"),
    claim("score", "83.1", "", SNAP, subject="SnapKV", setting="RULER"),
    claim("LongBench", "45.9", "", SNAP, subject="SnapKV"),
]
FALSE = [
    claim("score", "83.1", "", SNAP, subject="Sieve", setting="RULER"),
    claim("score", "46.8", "", SIEVE, subject="SnapKV", setting="LongBench"),
    claim("score", "46.8", "", SIEVE, subject="H2O", setting="LongBench"),
    claim("RULER", "46.8", "", SIEVE, subject="Sieve"),
    claim("PPL", "80.3", "", SIEVE, subject="Sieve"),
    claim("LongBench", "83.1", "", SNAP, subject="SnapKV"),
]


def test_claims_of_other_rows_and_columns_name_their_cell(
    client: Client, model: OpenAIServer, paper: Paper
) -> None:
    model.given = json.dumps(answer(*TRUE, *FALSE, gist="Sieve drops keys of small value norms."))
    summary = summarised(paper)
    told = [one.contradicted_by for one in summary.claims.order_by("position")]
    assert told[: len(TRUE)] == [""] * len(TRUE)
    assert told[len(TRUE) :] == [
        "Table 1: SnapKV × RULER ↑ = 83.1",
        "Table 1: Sieve (ours) × LongBench ↑ = 46.8",
        "Table 1: Sieve (ours) × LongBench ↑ = 46.8",
        "Table 1: Sieve (ours) × LongBench ↑ = 46.8",
        "Table 1: Sieve (ours) × RULER ↑ = 80.3",
        "Table 1: SnapKV × RULER ↑ = 83.1",
    ]
    page = shown(client, paper)
    assert page.count("The paper says otherwise") == len(FALSE)
    assert len(claims_shown(page)) == len(TRUE) + len(FALSE)


@pytest.mark.parametrize(
    ("gist", "cell"),
    [
        ("Sieve drops cached keys and reaches 74.6 on RULER.", "H2O × RULER ↑ = 74.6"),
        ("Sieve drops cached keys; SnapKV reaches 80.3 on RULER.", "Sieve (ours) × RULER ↑ = 80.3"),
        ("Sieve outperforms SnapKV on RULER.", "SnapKV × RULER ↑ = 83.1"),
        ("Sieve surpasses the full cache on LongBench.", "Full cache × LongBench ↑ = 48.2"),
        ("H2O beats Sieve.", "Sieve (ours) × "),
        ("Sieve improves on the full cache by 9% on NIAH.", "Sieve falls by −9%"),
    ],
)
def test_a_false_first_sentence_is_told_and_not_used(
    client: Client, model: OpenAIServer, paper: Paper, gist: str, cell: str
) -> None:
    model.given = json.dumps(answer(gist=gist))
    summary = summarised(paper)
    assert summary.withheld == "the paper contradicts its first sentence"
    page = shown(client, paper)
    assert "The paper says otherwise" in page
    assert cell in page


@pytest.mark.parametrize(
    "gist",
    [
        "Sieve drops cached keys and reaches 46.8 on LongBench.",
        "Sieve outperforms SnapKV on LongBench and loses to it on RULER.",
        "Sieve outperforms H2O on every benchmark.",
        "Sieve drops keys; SnapKV reaches 83.1 on RULER, Sieve 80.3.",
    ],
)
def test_a_true_first_sentence_is_used(model: OpenAIServer, paper: Paper, gist: str) -> None:
    model.given = json.dumps(answer(gist=gist))
    assert "otherwise" not in summarised(paper).withheld
