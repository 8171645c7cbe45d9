"""Text that small models write around or instead of the requested JSON."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer

from tests.clock import ends_within
from tests.servers.openai import BODIES, DRAFT, OpenAIServer, honest_summary
from tests.summaries.test_answer import TEXT, asked
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper
from webapp.summaries import capability, client
from webapp.summaries.answer import parse
from webapp.summaries.client import BusyError, ModelError, RefusedError, Server
from webapp.summaries.models import ServerCapability, Summary
from webapp.summaries.normalise import object_in, tex_kept
from webapp.summaries.schema import strict_schema

REASONING = [
    *("closing_mark", "thinking", "two_blocks", "text_before", "seed", "mistral", "kimi"),
    *("harmony", "harmony_without_marks", "answer_mark"),
    *("parts", "reasoning_apart", "all_reasoning"),
]
SLIPS = [
    *("trailing_comma", "comment", "second_object", "remark", "single_quotes", "no_last_brace"),
    *("missing_comma", "wrapped", "in_a_list", "null_unit", "capital_direction", "null_relations"),
    *("null_lists", "number_value", "bad_claim", "extra_field"),
]


@pytest.mark.parametrize("scenario", [*REASONING, *SLIPS])
def test_the_answer_is_the_one_meant_and_the_model_is_asked_once(scenario: str) -> None:
    with OpenAIServer(scenario) as server:
        summary = asked(server)
    assert len(server.requests) == 1
    good = honest_summary(TEXT)
    assert summary.gist == good["gist"]
    assert [claim.quote for claim in summary.claims] == [claim["quote"] for claim in good["claims"]]
    assert [claim.value for claim in summary.claims] == ["3.5"]
    assert summary.claims[0].direction == "higher"
    assert summary.conclusions.model_dump() == good["conclusions"]


def test_what_is_too_long_is_cut_and_quotes_stay_the_paper_s_words() -> None:
    with OpenAIServer("many_claims") as server:
        assert len(asked(server).claims) == 30
    with OpenAIServer("long_gist") as server:
        gist = asked(server).gist
    assert 380 < len(gist) <= 400
    assert re.search(r"(?:It|is|a|method\.)…$", gist)  # between words
    answer = honest_summary(TEXT)
    answer["claims"][0]["quote"] = "It is 3.5x faster. " * 80
    quote = parse(json.dumps(answer)).claims[0].quote
    assert len(quote) == 1000
    assert answer["claims"][0]["quote"].startswith(quote)
    answer["results"]["tables"][0]["rows"] = [["", "1"]] * 50
    rows = parse(json.dumps(answer)).results.tables[0].rows
    assert rows == [["", "1"]] * 40  # an empty cell keeps its place


def test_tex_with_one_backslash_is_tex() -> None:
    with OpenAIServer("tex") as server:
        summary = asked(server)
    assert summary.gist == (
        r"It is 3.5$\times$ faster, for $\rho$, $\beta$, $\frac{1}{2}$, $\nabla$ too."
    )
    assert summary.contributions.method == [r"Of $\theta$ and $\alpha$, \emph{not} of \textbf{x}."]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        (r'"a\nb\tc\"d\\e\/f"', 'a\nb\tc"d\\e/f'),
        (r'"first line\nnot a macro\nnew"', "first line\nnot a macro\nnew"),
        (r'"$x$\nnu is 3, $5 and\nmore"', "$x$\nnu is 3, $5 and\nmore"),
        (r'"$\nu$ $\tau\to 0$ \times \beta"', r"$\nu$ $\tau\to 0$ \times \beta"),
        (r'"\\times \\beta $\\nu$"', r"\times \beta $\nu$"),
        (
            r'"\u00e9 \uparrow \underline{x} \{ \% \_ \& \$5"',
            r"é \uparrow \underline{x} \{ \% \_ \& \$5",
        ),
        (r'"\rightarrow \forall \bar{x} \text{if}"', r"\rightarrow \forall \bar{x} \text{if}"),
        (r'"Model\tAccuracy\tours\t79.66"', "Model\tAccuracy\tours\t79.66"),
    ],
)
def test_a_backslash_is_json_s_or_tex_s(source: str, meant: str) -> None:
    assert json.loads(tex_kept(source)) == meant


def test_marks_of_reasoning_within_the_answer_are_its_words() -> None:
    answer = honest_summary(TEXT) | {"gist": "Tokens such as <think> and </think> are pruned."}
    assert parse(json.dumps(answer)).gist == answer["gist"]
    assert parse(f"<think>{DRAFT}</think>{json.dumps(answer)}").gist == answer["gist"]


def test_a_draft_is_not_the_answer_though_the_answer_has_a_slip() -> None:
    draft = json.dumps(honest_summary(TEXT) | {"gist": "A draft that is not meant."})
    final = json.dumps(honest_summary(TEXT))[:-1] + ",}"
    assert parse(f"<think>{draft}</think>{final}").gist.startswith("The paper reports")


@pytest.mark.parametrize(
    "hostile",
    [
        *('{"gist": "' * 20_000, "{" * 200_000, '"gist": {' * 40_000, '{"gist":' + "[" * 200_000),
        *("<think>" * 100_000, "</think>{" * 100_000, "\\" * 400_001),
        *('{"gist": "\\u' * 30_000, "$" * 400_000, '{"gist": 1} ' * 100_000),
    ],
    ids=lambda text: text[:10],
)
def test_hostile_answers_are_read_in_linear_time(hostile: str) -> None:
    fields = ["gist", "claims", "results"]
    assert object_in(hostile, fields) is None
    assert ends_within(3, object_in, hostile, fields)


@pytest.mark.parametrize("scenario", sorted(BODIES))
def test_an_error_in_a_200_is_the_server_s_own_word(scenario: str) -> None:
    refused = scenario in {"error_refused", "error_old_vllm"}
    with OpenAIServer(scenario) as server:
        with pytest.raises(RefusedError if refused else BusyError) as caught:
            asked(server)
        assert len(server.requests) == 1
    body = json.dumps(BODIES[scenario])
    said = re.search(r'"(?:message|error)": "([^"]+)"', body)
    assert said is not None
    assert said[1] in str(caught.value)
    if scenario == "error_wait":
        assert isinstance(caught.value, BusyError)
        assert caught.value.wait == 67.5


def test_a_refusal_is_said_and_not_asked_again() -> None:
    with OpenAIServer("refuses") as server, pytest.raises(ModelError, match="can’t help with that"):
        asked(server)
    assert len(server.requests) == 1


def test_a_redirect_is_refused_and_says_where_it_leads() -> None:
    with OpenAIServer("redirect") as server:
        with pytest.raises(RefusedError, match=rf"redirects to {server.url}/elsewhere"):
            asked(server)
        assert len(server.requests) == 1  # what was sent went nowhere else


def test_the_schema_has_only_documented_keywords() -> None:
    words = set(re.findall(r'"([a-zA-Z$]+)": ', json.dumps(strict_schema())))
    assert not words & {"default", "title", "maxLength", "description", "maxItems", "anyOf"} - {
        "title"  # a property of tables
    }


@pytest.mark.django_db
def test_the_probe_sends_the_schema_of_the_summary() -> None:
    with OpenAIServer(mode="openai") as server:
        asker = Server(server.url, "small", "key")
        assert capability.find_mode(asker) == "json_schema"
        asked(server)
    probe, summary = server.requests
    assert probe["response_format"] == summary["response_format"]


def paper_page(paper: Paper) -> str:
    """The text of the paper's page, blanks folded."""
    html = Client().get(f"/papers/{paper.arxiv_id}/").content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["openai", "vllm", "llama.cpp", "dashscope"])
def test_a_context_that_is_too_short_shortens_the_text_once_and_is_remembered(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, mode: str, settings: Any
) -> None:
    settings.SUMMARY_CHARACTERS = 80_000
    arxiv.clear()
    long = "<p>" + "Sparse attention folds strides into heads and is 3.5x faster. " * 1000 + "</p>"
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(f"<article>{long}</article>")
    arxiv.expect_request("/html/2512.00004v1").respond_with_data(f"<article>{long}</article>")
    model.mode, model.context = mode, 8_000
    summary = summarised(paper)
    assert (summary.state, summary.reason) == ("done", "")
    assert 0.1 < summary.text_share < 0.6
    # vLLM and llama.cpp tell their context: nothing is refused there in the first place.
    assert model.summaries_asked == (1 if mode in {"vllm", "llama.cpp"} else 2)
    assert "of the full text (HTML)" in paper_page(paper)
    other = Paper.objects.create(
        arxiv_id="2512.00004", title="Other", abstract="x", primary_category="cs.LG"
    )
    before = len(model.requests)
    assert summarised(other).state == "done"
    assert len(model.requests) == before + 1  # neither probed nor refused again


@pytest.mark.django_db(transaction=True)
def test_a_prompt_that_was_cut_off_in_silence_is_noticed(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    arxiv.clear()
    long = "<p>" + "Sparse attention folds strides into heads and is 3.5x faster. " * 1000 + "</p>"
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(f"<article>{long}</article>")
    arxiv.expect_request("/html/2512.00004v1").respond_with_data(f"<article>{long}</article>")
    model.mode, model.context = "ollama", 4_096
    summary = summarised(paper)
    assert summary.state == "done"
    assert 0.15 < summary.read_share < 0.35
    assert f"did not read about {round(100 * (1 - summary.read_share))} % of it" in paper_page(
        paper
    )
    other = Paper.objects.create(
        arxiv_id="2512.00004", title="Other", abstract="x", primary_category="cs.LG"
    )
    summary = summarised(other)
    assert summary.read_share == 1.0
    assert summary.text_share < 0.2
    assert "unread" not in paper_page(other)
    assert ServerCapability.objects.get().prompt_characters == 3 * 4_096


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("context", "cut"), [(4_096, 0.1), (4_096, 0.2), (8_192, 0.3), (2_048, 0.33), (5_000, 0.4)]
)
def test_a_prompt_of_which_less_than_half_was_cut_off_is_noticed(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, context: int, cut: float
) -> None:
    sentence = "Sparse attention folds strides into heads and is 3.5x faster. "
    whole = "<p>" + sentence * 8 + "</p>"
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data(f"<article>{whole}</article>")
    model.mode = "ollama"
    assert summarised(paper).read_share == 1.0
    asked = sum(len(message["content"]) for message in model.requests[-1]["messages"])
    around = asked - 8 * len(sentence)  # what the question says besides the paper
    length = round(context * 4 / (1 - cut)) - around
    long = "<p>" + sentence * (length // len(sentence)) + "</p>"
    arxiv.expect_request("/html/2512.00004v1").respond_with_data(f"<article>{long}</article>")
    other = Paper.objects.create(
        arxiv_id="2512.00004", title="Other", abstract="x", primary_category="cs.LG"
    )
    model.context = context
    summary = summarised(other)
    assert summary.read_share == pytest.approx(1 - cut, abs=0.03)
    said = re.search(r"The model did not read about (\d+) % of it", paper_page(other))
    assert said
    assert int(said[1]) == pytest.approx(100 * cut, abs=3)


@pytest.mark.parametrize(
    ("tokens", "share"), [(0, 1.0), (2_501, 1.0), (2_600, 1.0), (2_048, 0.82), (1_900, 1.0)]
)
def test_a_prompt_that_may_be_whole_is_taken_for_whole(tokens: int, share: float) -> None:
    prompt = "lengthy words of science " * 400  # 10,000 characters, 1,600 words
    assert capability.read_share(tokens, prompt) == pytest.approx(share, abs=0.01)


@pytest.mark.django_db(transaction=True)
def test_an_error_in_a_200_is_retried_later(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    model.scenario = "error_wait"
    began = timezone.now()
    summary = summarised(paper)
    assert summary.state == "waiting"
    assert "Rate limit reached" in summary.reason
    assert summary.not_before is not None
    assert summary.not_before > began + timedelta(seconds=50)
    assert summary.not_before < timezone.now() + timedelta(seconds=68)
    Summary.objects.update(not_before=None)
    model.scenario = "good"
    assert summarised(paper).state == "done"


@pytest.mark.parametrize(
    ("message", "share"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 21000", 0.195),
        ("the request exceeds the available context size (8,192), n_prompt_tokens 16,384", 0.5),
        ("Range of input length should be [1, 30720]", 0.5),
        ("prompt is too long: 210000 tokens > 200000 maximum", 0.952),
        (
            "The input (85050 tokens) is longer than the model's context length (32768 tokens).",
            0.385,
        ),
    ],
)
def test_errors_of_long_prompts_say_what_would_fit(message: str, share: float) -> None:
    error = client._status_error(400, {}, message)
    assert isinstance(error, client.TooLongError)
    assert error.share == pytest.approx(share, abs=0.001)
    assert not isinstance(client._status_error(400, {}, "temperature 2000"), client.TooLongError)
