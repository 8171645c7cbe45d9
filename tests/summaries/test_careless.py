"""A second paper and what careless models write of it, kind by kind, through the whole path."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.test_grounded import EVERY, claims_shown, shown
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper
from webapp.ui import markup

pytestmark = pytest.mark.django_db(transaction=True)

ABSTRACT = (
    "Long contexts make the key-value cache the bottleneck of decoding. We present Sieve, which "
    "drops cached keys whose values have small norms. On LongBench, Sieve keeps 96.3% of the "
    "accuracy of the full cache with a quarter of its memory, while H2O keeps 91.8% at the same "
    "budget. Decoding is 2.4x faster than the dense baseline at 32,768 tokens, and the perplexity "
    "on PG-19 rises only from 8.21 to 8.34."
)
HTML = f"""<html><body><article class="ltx_document"><h1 class="ltx_title">Sieve</h1>
<div class="ltx_abstract"><h6>Abstract</h6><p>{ABSTRACT}</p></div>
<section class="ltx_section"><h2>1 Introduction</h2>
<p>{"Caches grow with every token that is read. " * 20}</p></section>
<section class="ltx_section"><h2>4 Set-up</h2><p>We use Llama-3-8B with a budget of 1,024 tokens and
a batch of 8 on one A100.</p><p>{"Prompts differ in length. " * 20}</p></section>
<section class="ltx_section"><h2>5 Results</h2><p>The recall of needles falls from 99.1% to 87.5% at
128K tokens. SnapKV needs 5.5 GB of memory and Sieve 3.25 GB. Sieve loses to SnapKV by 1.9 points on
RepoQA.</p></section></article></body></html>"""
KEEPS = ABSTRACT.partition("small norms. ")[2].partition(" Decoding")[0]
FASTER = "Decoding is 2.4x faster than the dense baseline at 32,768 tokens"
PERPLEXITY = "the perplexity on PG-19 rises only from 8.21 to 8.34"
NEEDLES = "The recall of needles falls from 99.1% to 87.5% at 128K tokens."
MEMORY = "SnapKV needs 5.5 GB of memory and Sieve 3.25 GB."
LOSES = "Sieve loses to SnapKV by 1.9 points on RepoQA."


@pytest.fixture
def paper(arxiv: HTTPServer) -> Paper:
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(HTML, content_type="text/html")
    return Paper.objects.create(
        arxiv_id="2512.00001",
        title="Sieve: pruning the key-value cache by value norms",
        abstract=ABSTRACT,
        abstract_html=markup.render(ABSTRACT),
        primary_category="cs.CL",
    )


def claim(metric: str, value: str, unit: str, quote: str, **changed: str) -> dict[str, str]:
    texts = dict.fromkeys(("baseline", "setting", "hardware", "section"), "")
    said = {"metric": metric, "value": value, "unit": unit, "quote": quote, "direction": "higher"}
    return {"subject": "Sieve", **texts, **said, **changed}


def answer(*claims: dict[str, str], **changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "gist": "Sieve drops cached keys with small value norms and decodes 2.4x faster.",
        "contributions": {
            "problem": ["The key-value cache limits decoding over long contexts."],
            "method": ["Keys whose values have small norms are dropped."],
            "advantages": ["It needs a quarter of the memory."],
        },
        "experiments": {
            "data_sets": ["LongBench", "PG-19", "RepoQA"],
            "setup": ["Llama-3-8B with a budget of 1,024 tokens."],
            "metrics": ["Accuracy", "Perplexity"],
            "baselines": ["H2O", "SnapKV"],
        },
        "results": {
            "key_numbers": ["Sieve keeps 96.3% of the accuracy, H2O 91.8%."],
            "against_baselines": ["SnapKV wins by 1.9 points on RepoQA."],
            "ablations": [],
            "tables": [],
        },
        "conclusions": {
            "findings": ["Norms of values tell which keys matter."],
            "limitations": ["Recall of needles falls to 87.5% from 99.1% at 128K tokens."],
            "future_work": [],
        },
        "claims": list(claims),
        "relations": [],
    }
    for name, value in changed.items():
        part, _, key = name.partition("__")
        if key:
            made[part][key] = [value]
        else:
            made[name] = value
    return made


GOOD = [
    claim("accuracy kept", "96.3", "%", KEEPS, baseline="full cache", setting="LongBench"),
    claim("accuracy kept", "91.8", "%", KEEPS, subject="H2O", setting="LongBench"),
    claim("decoding speed", "2.4", "x", FASTER, baseline="dense", setting="32,768 tokens"),
    claim("perplexity", "8.34", "", PERPLEXITY, setting="PG-19", direction="lower"),
    claim("recall of needles", "87.5", "%", NEEDLES, setting="128K tokens"),
    claim("memory", "3.25", "GB", MEMORY, baseline="SnapKV", direction="lower"),
]
# Sentences that the paper contradicts, or nowhere says.
PROSE = [
    {"gist": "Sieve prunes caches, which makes decoding 2.4x slower than the dense baseline."},
    {"gist": "Sieve keeps 91.8% of the accuracy of the full cache, and H2O keeps 96.3% of it."},
    {"results__key_numbers": "Perplexity on PG-19 drops from 8.34 to 8.21."},
    {"results__key_numbers": "Needle recall improves from 87.5% to 99.1% at 128K tokens."},
    {"results__key_numbers": "Sieve needs 96.3% less memory than the full cache."},
    {"results__against_baselines": "Sieve outperforms the full cache by 96.3%."},
    {"results__against_baselines": "Sieve beats SnapKV by 1.9 points on RepoQA."},
    {"results__against_baselines": "Sieve needs 5.5 GB where SnapKV needs only 3.25 GB."},
    {"conclusions__findings": "Sieve loses 96.3% of the accuracy of the full cache."},
]
# Claims of which one detail is another's, or nobody's.
CLAIMS = [
    claim("accuracy kept", "96.3", "%", KEEPS, subject="H2O", setting="LongBench"),
    claim("decoding speed", "2.4", "x", FASTER, baseline="H2O", setting="32,768 tokens"),
    claim("decoding speed", "2.4", "x", FASTER, baseline="dense", setting="128K tokens"),
    claim("perplexity", "96.3", "%", KEEPS, setting="LongBench"),
    claim("perplexity", "8.34", "", PERPLEXITY, setting="RULER", direction="lower"),
    claim("decoding speed", "2.4", "x", FASTER, hardware="two A100"),
    claim("memory", "5.5", "GB", MEMORY, baseline="SnapKV", direction="lower"),
    claim("points on RepoQA", "1.9", "points", LOSES, baseline="SnapKV"),
    claim("accuracy kept", "96.3", "%", KEEPS, setting="Llama-3-70B"),
    claim("accuracy kept", "96.3", "%", KEEPS, setting="budget of 2,048 tokens"),
    claim("accuracy kept", "91.8", "%", KEEPS, subject="SnapKV"),
]


def test_a_good_answer_bears_no_mark(client: Client, model: OpenAIServer, paper: Paper) -> None:
    model.given = json.dumps(answer(*GOOD))
    summary = summarised(paper)
    assert (summary.state, summary.withheld) == ("done", "")
    page = shown(client, paper)
    assert [html for html in claims_shown(page) if "unverified" in html.split(">")[0]] == []
    assert "says otherwise" not in page
    assert EVERY in page


@pytest.mark.parametrize("changed", PROSE, ids=lambda changed: next(iter(changed.values())))
def test_a_false_sentence_is_marked(
    client: Client, model: OpenAIServer, paper: Paper, changed: dict[str, str]
) -> None:
    model.given = json.dumps(answer(**changed))
    summarised(paper)
    page = shown(client, paper)
    assert "The paper says otherwise" in page
    assert EVERY not in page


def test_a_claim_with_another_s_detail_is_marked(
    client: Client, model: OpenAIServer, paper: Paper
) -> None:
    model.given = json.dumps(answer(*CLAIMS))
    summarised(paper)
    page = shown(client, paper)
    claims = claims_shown(page)
    assert len(claims) == len(CLAIMS)
    passed = [
        " ".join(re.sub("<[^>]+>", " ", html).split())
        for html in claims
        if "unverified" not in html.split(">")[0] and "not checked whether" not in html
    ]
    assert passed == []
