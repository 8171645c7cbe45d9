"""Answers written by hand, as careless models write them, through the whole path to the page.

A true number stands beside an invented baseline, a true sentence is inverted, a valid answer says
nothing: the page must say so. A good answer, in its own words, must pass without any mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client
from lxml.html import HtmlElement, fragments_fromstring
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper
from webapp.summaries import queries, queue
from webapp.summaries.client import Server
from webapp.summaries.html_text import sections_of_html
from webapp.summaries.models import Claim, Summary
from webapp.summaries.paper_text import PaperText
from webapp.summaries.passages import Passages
from webapp.summaries.render import render_line
from webapp.summaries.summarise import summarise
from webapp.ui import markup

pytestmark = pytest.mark.django_db(transaction=True)

ABSTRACT = (
    "Planning for drones is slow. We present Agent4Drone, which plans with a small language model. "
    "On DroneBench, Agent4Drone reaches a success rate of 57.9% and the ReAct baseline 30.6%. "
    "It lowers the planning latency from 840 ms to 215 ms."
)
HTML = f"""<html><body><article class="ltx_document"><h1 class="ltx_title">Agent4Drone</h1>
<div class="ltx_abstract"><h6>Abstract</h6><p>{ABSTRACT}</p></div>
<section class="ltx_section"><h2>1 Introduction</h2><p>Drones must plan within a second.
{"Many planners are too slow for that. " * 20}</p></section>
<section class="ltx_section"><h2>3 Experimental setup</h2><p>All models are trained on 4 A100 GPUs
with 40 GB of memory, with a batch size of 64 and a learning rate of 0.0003. We average over five
seeds. The planner is Qwen2.5-7B, decoded greedily.</p><p>{"Tasks differ in length. " * 20}</p>
</section>
<section class="ltx_section"><h2>4 Results</h2><p>On the easy split, Agent4Drone reaches an accuracy
of 91.2% and the ReAct baseline 78.4%. Memory falls from 18.5 GB to 6.25 GB when the cache is
pruned. The throughput of Agent4Drone is 3.7 times higher than that of ReAct. On the hard split,
accuracy rises from 41.5% to 52.75%. A larger planner does not improve the success rate
beyond 58.3%.
Agent4Drone outperforms ToolPlanner by 12.4 points on AirNav.</p>
<figure class="ltx_table"><figcaption>Table 2: Success rate on AirNav with 128 waypoints.
</figcaption><table><thead><tr><th>Method</th><th>Success</th><th>Cost</th></tr></thead>
<tbody><tr><td>ToolPlanner</td><td>44.85</td><td>1.62</td></tr>
<tr><td>Agent4Drone</td><td>57.25</td><td>0.48</td></tr></tbody></table></figure></section>
</article></body></html>"""

EASY = "On the easy split, Agent4Drone reaches an accuracy of 91.2% and the ReAct baseline 78.4%."
SUCCESS = "On DroneBench, Agent4Drone reaches a success rate of 57.9% and the ReAct baseline 30.6%."
MEMORY = "Memory falls from 18.5 GB to 6.25 GB when the cache is pruned."
SPEED = "The throughput of Agent4Drone is 3.7 times higher than that of ReAct."
LATENCY = "It lowers the planning latency from 840 ms to 215 ms."
ROW = "| Agent4Drone | 57.25 | 0.48 |"


def claim(**changed: str) -> dict[str, str]:
    """A claim that holds, with something changed."""
    return {
        "metric": "accuracy",
        "subject": "Agent4Drone",
        "value": "91.2",
        "unit": "%",
        "direction": "higher",
        "baseline": "ReAct",
        "setting": "easy split",
        "hardware": "",
        "quote": EASY,
        "section": "4 Results",
    } | changed


def answer(claims: Sequence[dict[str, str]] = (), **changed: Any) -> dict[str, Any]:
    """A good summary of the paper."""
    made = {
        "gist": "Agent4Drone plans for drones with a small model and reaches a success rate of "
        "57.9%, where ReAct reaches 30.6%.",
        "contributions": {
            "problem": ["Planners for drones are too slow to react within a second."],
            "method": ["A small language model proposes plans, and the cache is pruned."],
            "advantages": ["Planning takes 215 ms instead of 840 ms."],
        },
        "experiments": {
            "data_sets": ["DroneBench", "AirNav"],
            "setup": ["Trained on 4 A100 GPUs with a batch size of 64."],
            "metrics": ["Success rate", "Accuracy"],
            "baselines": ["ReAct", "ToolPlanner"],
        },
        "results": {
            "key_numbers": [
                "The success rate is 57.9% against 30.6% for ReAct.",
                "Planning latency drops to 215 ms from 840 ms.",
                "The cache needs 6.25 GB, down from 18.5 GB.",
                "Accuracy on the hard split rises from 41.5% to 52.75%.",
            ],
            "against_baselines": [
                "Throughput is 3.7 times that of ReAct.",
                "It beats ToolPlanner by 12.4 points on AirNav (57.25 against 44.85).",
            ],
            "ablations": ["A larger planner does not raise the success rate beyond 58.3%."],
            "tables": [],
        },
        "conclusions": {
            "findings": ["Small models suffice for planning."],
            "limitations": ["Only two benchmarks were tried."],
            "future_work": [],
        },
        "claims": list(claims),
        "relations": [],
    }
    for name, value in changed.items():
        if "__" in name:
            part, _, key = name.partition("__")
            made[part][key] = value  # type: ignore[index]
        else:
            made[name] = value
    return made


GOOD = [
    claim(),
    claim(baseline="the ReAct baseline", setting="easy split of the tasks", section="Results"),
    claim(metric="Accuracy on the easy split", baseline="ReAct (78.4%)", section="Section 4"),
    claim(hardware="4 A100 GPUs with 40 GB of memory", setting="batch size of 64"),
    claim(hardware="A100", setting="batch size 64, learning rate 0.0003, five seeds"),
    claim(hardware="4 × A100", setting="Qwen2.5-7B, decoded greedily"),
    claim(metric="success rate", value="57.9", quote=SUCCESS, setting="DroneBench",
          section="Abstract"),
    claim(metric="Success rate", value="57.9%", unit="", quote=SUCCESS, section="Abstract",
          baseline="ReAct baseline, 30.6%", setting=""),
    claim(metric="memory", value="18.5 -> 6.25", unit="GB", quote=MEMORY, subject="the cache",
          direction="lower", baseline="18.5 GB", setting="pruned cache"),
    claim(metric="throughput", value="3.7", unit="times", quote=SPEED, setting=""),
    claim(metric="planning latency", value="840 -> 215", unit="ms", quote=LATENCY, subject="",
          baseline="840 ms", setting="", direction="lower", section="Abstract"),
    claim(metric="success rate", value="57.25", unit="", quote=ROW, baseline="ToolPlanner 44.85",
          setting="AirNav, 128 waypoints", section="Table 2"),
    claim(metric="Cost", value="0.48", unit="", quote=ROW, baseline="ToolPlanner (1.62)",
          setting="AirNav", section="4 Results", direction="lower"),
    claim(value="78.4", subject="the ReAct baseline", baseline=""),
    claim(metric="success rate", value="30.6", quote=SUCCESS, subject="ReAct", setting="DroneBench",
          baseline="", section="Abstract"),
]  # fmt: skip

INVENTED = {
    "baseline": ["GPT-4o at 41.2%", "GPT-4o", "LLaMA-3 70B", "ReAct at 61.7%", "SnapKV",
                 "human experts", "ToolPlanner-XL", "ReAct with GPT-4"],
    "setting": ["batch size 512, 3 seeds", "batch size 512", "learning rate 0.01", "ImageNet",
                "easy split, temperature 0.7", "beam search", "CIFAR-100", "4-bit quantization",
                "easy split, greedy search with 8 beams"],
    "hardware": ["8 × H100 80GB", "H100", "4 A100 GPUs with 80 GB of memory", "TPU v5", "64 A100",
                 "RTX 4090", "one laptop"],
    "section": ["Table 7", "Section 9", "5 Ablations", "Figure 12", "Appendix Q"],
    "metric": ["BLEU", "F1 on SQuAD", "top-5 accuracy", "perplexity", "accuracy on ImageNet",
               "calibration"],
    "subject": ["GPT-4o", "SnapKV", "ToolPlanner-XL", "Gemini 2.5 Pro"],
}  # fmt: skip

# Each is (what is changed in a good answer, the words of the paper that the page must show).
INVERTED: list[tuple[dict[str, Any], str]] = [
    ({"results__key_numbers": ["Agent4Drone reaches 30.6% and the baseline 57.9%."]}, "57.9%"),
    ({"results__key_numbers": ["On the easy split ReAct has 91.2%, Agent4Drone 78.4%."]}, "91.2%"),
    ({"results__key_numbers": ["Memory rises from 6.25 GB to 18.5 GB."]}, "18.5 GB to 6.25"),
    ({"results__key_numbers": ["The accuracy falls from 52.75% to 41.5%."]}, "41.5% to 52.75"),
    ({"results__key_numbers": ["The throughput of Agent4Drone is 3.7 times lower."]}, "3.7 times"),
    ({"results__key_numbers": ["The error rate of Agent4Drone is 57.9%."]}, "success rate of 57.9"),
    ({"results__ablations": ["A larger planner improves the success rate beyond 58.3%."]}, "58.3"),
    ({"gist": "On DroneBench the ReAct baseline reaches 57.9% and Agent4Drone only 30.6%."},
     "57.9%"),
    ({"results__key_numbers": ["Planning latency increases from 215 ms to 840 ms."]}, "840 ms to"),
    ({"results__key_numbers": ["ReAct and Agent4Drone reach 57.9% and 30.6%, respectively."]},
     "57.9%"),
]  # fmt: skip


@pytest.fixture
def paper(arxiv: HTTPServer) -> Paper:
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(HTML, content_type="text/html")
    return Paper.objects.create(
        arxiv_id="2512.00001",
        title="Agent4Drone: planning for drones",
        abstract=ABSTRACT,
        abstract_html=markup.render(ABSTRACT),
        primary_category="cs.RO",
    )


def shown(client: Client, paper: Paper) -> str:
    """The page of a paper as a reader sees it, its spaces folded."""
    response = client.get(f"/papers/{paper.arxiv_id}/")
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def claims_shown(page: str) -> list[str]:
    """The HTML of each claim of a model on a page."""
    listed = page.partition('id="claims-title"')[2].partition("</section>")[0]
    return re.findall(r'<li class="claim.*?</li>', listed)


EVERY = "Each number was found"


def test_a_good_answer_passes_without_a_mark(
    client: Client, model: OpenAIServer, paper: Paper
) -> None:
    model.given = json.dumps(answer(GOOD))
    summary = summarised(paper)
    assert (summary.state, summary.withheld) == ("done", "")
    assert [c.not_given for c in Claim.objects.exclude(not_given={})] == []
    assert [c.contradicted_by for c in Claim.objects.exclude(contradicted_by="")] == []
    page = shown(client, paper)
    claims = claims_shown(page)
    assert len(claims) == len(GOOD)
    units = ("57.25", "0.48")  # their units stand in no cell
    marked = [one for one in claims if "unverified" in one and not any(u in one for u in units)]
    assert marked == []
    assert "says otherwise" not in page
    assert EVERY in page


@pytest.mark.parametrize("field", INVENTED)
def test_every_invented_detail_is_marked_or_dropped(
    client: Client, model: OpenAIServer, paper: Paper, field: str
) -> None:
    changed = [claim(**{field: invention}) for invention in INVENTED[field]]
    model.given = json.dumps(answer(changed))
    summarised(paper)
    page = shown(client, paper)
    claims = claims_shown(page)
    assert len(claims) == len(changed)
    for invention, html in zip(INVENTED[field], claims, strict=True):
        if field == "section":  # the true section stands in its place
            assert invention not in html
            assert "4 Results" in html
        else:
            assert '<mark class="unverified">' in html, invention
            assert "Marked words are the model’s reading" in html
            assert "unverified" in html.split(">")[0]
    if field != "section":
        assert EVERY not in page


@pytest.mark.parametrize(
    ("value", "unit", "state"),
    [
        ("57.25", "%", "number and unit"),  # the head of its cell says so
        ("57.25", "ms", "number only"),
        ("0.48", "%", "number only"),  # under another head
        ("0.48", "ms", "number and unit"),
        ("58.25", "%", "not found"),
    ],
)
def test_a_number_of_a_table_is_verified_by_its_cell_and_head(
    value: str, unit: str, state: str
) -> None:
    tables = HTML.replace("<th>Success</th><th>Cost</th>", "<th>Success (%)</th><th>Cost, ms</th>")
    sections = [(one.title, one.text) for one in sections_of_html(tables.encode())]
    truth = PaperText("Agent4Drone", ABSTRACT, sections)
    assert truth.ground(value, unit, ROW).state == state
    assert truth.ground(value, unit, "Agent4Drone 57.25").state == "not found", "no row"


def test_there_are_inventions_of_every_kind() -> None:
    assert sum(map(len, INVENTED.values())) >= 30


@pytest.mark.parametrize(("changed", "words"), INVERTED)
def test_an_inverted_statement_stands_beside_the_paper_s_own(
    client: Client, model: OpenAIServer, paper: Paper, changed: dict[str, Any], words: str
) -> None:
    model.given = json.dumps(answer(**changed))
    summary = summarised(paper)
    page = shown(client, paper)
    assert "The paper says otherwise" in page
    otherwise = page.split("The paper says otherwise", 1)[1][:900]
    assert words in re.sub(r"</?mark[^>]*>", "", otherwise)
    assert EVERY not in page
    if "gist" in changed:
        assert summary.withheld


FALSE_CLAIMS = [
    claim(metric="error rate", value="57.9", quote=SUCCESS, direction="lower", setting=""),
    claim(value="78.4", subject="Agent4Drone", baseline="ReAct"),
    claim(value="91.2", subject="ReAct", baseline="Agent4Drone"),
    claim(metric="success rate", value="30.6", quote=SUCCESS, setting=""),
    claim(value="78.4", subject="Agent4Drone", setting="hard split"),
    claim(metric="latency", value="91.2"),
]


def test_a_false_claim_of_true_numbers_is_not_shown_as_found(
    client: Client, model: OpenAIServer, paper: Paper
) -> None:
    model.given = json.dumps(answer(FALSE_CLAIMS))
    claims = summarised(paper).claims.order_by("position")
    assert [one.verified for one in claims] == [False] * len(FALSE_CLAIMS)
    assert [bool(one.contradicted_by) for one in claims] == [False, True, True, True, False, False]
    shown_claims = claims_shown(shown(client, paper))
    for html in shown_claims:
        is_told = "The paper says otherwise" in html
        assert is_told or "Number found; not checked whether it belongs to this result." in html
        assert "Number and unit found" not in html or is_told


def test_a_true_claim_is_shown_as_found(client: Client, model: OpenAIServer, paper: Paper) -> None:
    model.given = json.dumps(answer([claim()]))
    (one,) = summarised(paper).claims.all()
    assert one.verified
    assert "Number and unit found in the text." in shown(client, paper)


def test_the_rules_numbers_stay_whatever_a_model_says(
    client: Client, model: OpenAIServer, paper: Paper
) -> None:
    before = re.findall(r"<mark[^>]*>([^<]*)</mark>", shown(client, paper))
    assert {"57.9%", "30.6%"} <= set(before)
    model.given = json.dumps(answer())
    summarised(paper)
    page = shown(client, paper)
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", page) == before
    quoted = client.get(f"/api/v1/papers/{paper.arxiv_id}").json()["quotes"]
    assert any("57.9%" in one["quote"] for one in quoted)


LONG = "the model is good and " * 30
USELESS: dict[str, dict[str, Any]] = {
    "the form": {
        "gist": "Data sets: type",
        "contributions": {"problem": ["type"], "method": ["string"], "advantages": ["type"]},
        "experiments": {n: ["type"] for n in ("data_sets", "setup", "metrics", "baselines")},
    },
    "lines of the form": {
        "contributions": {"problem": ["string"], "method": ["string"], "advantages": ["text"]},
        "experiments": {
            "data_sets": ["Data sets: type", "DroneBench"],
            "setup": ["Setup: type"],
            "metrics": ["Metrics: type"],
            "baselines": ["Baselines: type"],
        },
        "results": {
            "key_numbers": ["Key numbers: string", "string 1"],
            "against_baselines": ["string"],
            "ablations": ["n/a"],
        },
        "conclusions": {"findings": ["type"], "limitations": ["none"], "future_work": ["type"]},
    },
    "the question": {
        "gist": "one sentence: what was done, and the most important result.",
        "contributions": {
            "problem": ["Report only what the paper's text states."],
            "method": [
                "the problem; the method and what is new in it; its advantages over earlier"
            ],
            "advantages": ["Copy every quote character by character from the paper"],
        },
        "experiments": {
            "data_sets": ["data sets, setup (models, sizes, hardware), metrics, baselines."],
            "setup": ["Never guess, never round, never compute a number that is not written there"],
        },
        "results": {"key_numbers": ["how they compare with the baselines; the ablations"]},
        "conclusions": {"findings": ["Write prose in English. Keep technical terms, names"]},
    },
    "the abstract": {
        "gist": ABSTRACT.split(". ")[1],
        "contributions": {"problem": [ABSTRACT[:130]], "method": [ABSTRACT[20:200]]},
        "experiments": {"metrics": [SUCCESS]},
        "results": {"key_numbers": [SUCCESS, LATENCY]},
        "conclusions": {"findings": [LATENCY]},
    },
    "an address": {"gist": "https://arxiv.org/abs/2512.00001"},
    "one line over and over": {
        "contributions": {n: ["It is a method."] * 4 for n in ("problem", "method", "advantages")},
        "experiments": {n: ["It is a method."] * 4 for n in ("setup", "metrics", "baselines")},
    },
    "a loop": {"contributions": {"problem": [LONG], "method": [LONG], "advantages": [LONG]}},
    "nearly nothing": {
        "gist": "This paper is about drones.",
        "contributions": {},
        "experiments": {},
        "results": {},
        "conclusions": {},
    },
    "invented quotes": {
        "claims": [
            claim(quote=f"Our method wins on benchmark number {n} with 91.2%.") for n in range(4)
        ]
    },
    "another language": {
        "gist": "本文提出了一种用于无人机规划的小型语言模型方法，成功率更高。",
        "contributions": {"problem": ["无人机的规划速度太慢，无法在一秒内作出反应。"]},
        "experiments": {},
        "results": {},
        "conclusions": {"findings": ["小模型足以完成规划任务，并且延迟更低。"]},
    },
}


@pytest.mark.parametrize("kind", USELESS)
def test_a_useless_answer_is_kept_off_cards_mail_and_feeds(
    client: Client, model: OpenAIServer, paper: Paper, kind: str
) -> None:
    model.given = json.dumps(answer(**USELESS[kind]))
    summary = summarised(paper)
    assert summary.state == "done"
    assert summary.withheld
    assert not queries.shown_summaries().exists()  # what cards, mail and feeds are made of
    page = shown(client, paper)
    assert "is not shown in lists, mail or feeds: " + summary.withheld in page.replace(
        "&#x27;", "'"
    )
    assert EVERY not in page.partition("<details>")[0]


def test_a_good_summary_is_preferred_to_a_newer_useless_one(
    client: Client, model: OpenAIServer, paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.given = json.dumps(answer(GOOD))
    first = summarised(paper)
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "tiny")
    model.given = json.dumps(answer(gist="https://arxiv.org/abs/2512.00001"))
    second = summarised(paper)
    assert (first.withheld, bool(second.withheld)) == ("", True)
    assert queries.summary_view(paper).summary == Summary.objects.get(pk=first.pk)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_short_good_answer_is_used(model: OpenAIServer, paper: Paper, language: str) -> None:
    words = {"gist": "本文提出 Agent4Drone，用小型语言模型为无人机规划，成功率达到 57.9%。"}
    if language == "zh":
        words |= {
            "contributions": {"problem": ["无人机的规划速度太慢。"], "method": ["剪枝缓存。"]},
            "experiments": {"data_sets": ["DroneBench", "AirNav"]},
            "results": {"key_numbers": ["规划延迟从 840 ms 降低到 215 ms。"]},
            "conclusions": {"findings": ["小模型足够。"]},
        }
    model.given = json.dumps(answer(GOOD[:2], **(words if language == "zh" else {})))
    server = Server.configured()
    assert server is not None
    queue.request([paper], language, server)
    summarise(queue.ready()[0])
    summary = Summary.objects.get()
    assert (summary.state, summary.withheld, summary.unverified) == ("done", "", 0)


PASSAGES = {
    "Planning takes 215 ms instead of 840 ms.": LATENCY,
    "Trained on 4 A100 GPUs with a batch size of 64.": "All models are trained on 4 A100 GPUs",
    "AirNav": "Agent4Drone outperforms ToolPlanner by 12.4 points on AirNav.",
    "Accuracy on the hard split rises from 41.5% to 52.75%.": "On the hard split, accuracy rises",
}
READINGS = ("Robots in kitchens profit, too.", "It needs no labels.", "A rule of thumb")


def _statement(item: HtmlElement) -> str:
    """Return the text of a line before its passage or mark."""
    line = item.xpath("string(.)")
    for mark in ("In the paper", "The model’s reading", "论文原文", "模型的解读"):
        line = line.partition(mark)[0]
    return " ".join(line.split())


def _lines(html: str) -> dict[str, HtmlElement]:
    """Return the lines of a summary by their text."""
    parts = fragments_fromstring(html)
    return {_statement(item): item for part in parts for item in part.iter("li")}


def test_each_sentence_names_its_passage_or_is_marked_as_the_models_reading(
    paper: Paper, model: OpenAIServer, client: Client
) -> None:
    good: dict[str, Any] = answer(GOOD[:2])
    good["contributions"]["advantages"] += READINGS
    model.given = json.dumps(good)
    items = _lines(summarised(paper).html)
    for statement, beginning in PASSAGES.items():
        [quote] = items[statement].xpath("./details/blockquote")
        assert quote.text_content().strip().startswith(beginning)
        assert not items[statement].xpath("./small")
    for statement in READINGS:
        assert items[statement].xpath("./small")[0].text_content() == "The model’s reading"
    assert all(len(item.xpath("./details | ./small")) == 1 for item in items.values())
    page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
    assert "Each number was found in the paper’s text. The sentences" not in page
    assert page.count("<blockquote>") >= len(PASSAGES)


# Chinese sentences by what they share with the English paper.
CHINESE = {
    "规划延迟从 840 ms 降低到 215 ms。": LATENCY,
    "DroneBench 上的成功率为 57.9%，而 ReAct 为 30.6%。": SUCCESS,
    "在 AirNav 上比 ToolPlanner 高 12.4 个百分点。": "Agent4Drone outperforms ToolPlanner by 12.4",
    "模型在4块A100 GPU上训练，批大小为64。": "All models are trained on 4 A100 GPUs",
    "显存占用降至6.25GB。": MEMORY,
    "AirNav": "Agent4Drone outperforms ToolPlanner by 12.4 points on AirNav.",
}
CHINESE_READINGS = (
    "小模型足以完成规划任务。",  # nothing that both texts could have
    "Agent4Drone 不需要任何标注数据。",  # a name alone
    "在 AirNav 上 Agent4Drone 的延迟为 99 ms。",  # a number that is not there
    "DroneBench 上的成功率为 57.9%，延迟为 215 ms。",  # numbers of two sentences
    "训练使用 4 台机器。",  # a digit that stands somewhere
)


def test_a_chinese_sentence_rests_on_its_numbers_names_and_formulae(
    paper: Paper, model: OpenAIServer, client: Client
) -> None:
    written = "本文提出 Agent4Drone，用小型语言模型为无人机规划，成功率达到 57.9%。"
    model.given = json.dumps(
        answer(
            GOOD[:2],
            gist=written,
            contributions__problem=["无人机的规划速度太慢。"],
            contributions__method=["剪枝缓存。"],
            contributions__advantages=[*CHINESE, *CHINESE_READINGS],
            results__key_numbers=[],
            results__against_baselines=[],
            results__ablations=[],
            conclusions__findings=["小模型足够。"],
            conclusions__limitations=["仅测试了英语输入。", "仅在 DroneBench 和 AirNav 上测试。"],
        )
    )
    server = Server.configured()
    assert server is not None
    queue.request([paper], "zh", server)
    summarise(queue.ready()[0])
    items = _lines(Summary.objects.get().html)
    for statement, beginning in CHINESE.items():
        [quote] = items[statement].xpath("./details/blockquote")
        assert quote.text_content().strip().startswith(beginning), statement
    for statement in CHINESE_READINGS:
        assert items[statement].xpath("string(./small)") == "模型的解读", statement
    assert not [statement for statement in items if "测试" in statement]  # no passage has both
    page = client.get(f"/papers/{paper.arxiv_id}/?language=zh").content.decode()
    assert "论文原文" in page


def test_a_formula_in_a_chinese_sentence_finds_its_passage() -> None:
    english = "Attention costs $O(n^2 d)$ operations. Ours costs $O(n \\log n)$ of them."
    passages = Passages(PaperText("Title", english, []))
    assert passages.passage("该方法的复杂度为 $O(n \\log n)$，即 KV 更少。") == ""
    statement = "Ours 的复杂度为 $O(n\\log n)$。"
    assert passages.passage(statement) == "Ours costs $O(n \\log n)$ of them."


@pytest.mark.parametrize("name", ["Llama-3-8B", "Qwen2.5-7B-Instruct", "GPT-4o", "ViT-B-16"])
def test_a_number_within_a_name_is_not_marked(name: str) -> None:
    for text in (f"It is faster on {name}.", f"在{name}上更快。"):
        assert "unverified" not in render_line(text, lambda _: False), text
    assert render_line(f"{name} has 8B and 3-5 layers.", lambda _: False).count("<mark") == 3
