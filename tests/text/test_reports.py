"""Inputs that broke comparable programs (`reports.jsonl`), each tried where a user meets it.

A line has a kind, the input, what is expected and what Assay once did. The variants of each kind
are tested beside the code: tests/papers/test_names.py, tests/library/test_references.py and so on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import feedparser
import httpx2
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pybtex.database import parse_string
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.papers.test_names import FEED
from tests.processes import ROOT
from tests.servers.openai import OpenAIServer, honest_summary
from tests.summaries.conftest import *  # noqa: F403 - its fixtures
from tests.summaries.test_summarise import summarised
from tests.summaries.test_texts import pdf
from webapp.api import tokens
from webapp.digests.scoring.rules import Candidate, Keyword, Rules
from webapp.digests.scoring.scorer import Scorer
from webapp.library.models import Star
from webapp.library.references import references
from webapp.papers.citations import FILES, bibtex, csl, ris
from webapp.papers.formats import parse_feed
from webapp.papers.models import Paper
from webapp.papers.search import search
from webapp.papers.store import prepare, store_papers
from webapp.summaries.pdf_text import sections_of_pdf
from webapp.ui.markup import render, without_tex

LINES = [
    json.loads(line)
    for line in Path(__file__).with_name("reports.jsonl").read_text("utf-8").splitlines()
]
DAY = date(2025, 12, 18)
pytestmark = pytest.mark.django_db(transaction=True)


class World:
    """A model's server, arXiv's pages and a paper, for the checks of a line."""

    def __init__(self, model: OpenAIServer, paper: Paper, arxiv: HTTPServer, folder: Path) -> None:
        self.model, self.paper, self.arxiv, self.folder = model, paper, arxiv, folder
        self.client = Client()

    def page(self) -> str:
        """The paper's page as text."""
        html = self.client.get(f"/papers/{self.paper.arxiv_id}/").content.decode()
        return " ".join(re.sub(r"<[^>]+>", " ", html).split())

    def summary(self, scenario: str = "good", mode: str = "schema", context: int = 0) -> Any:
        """A summary of the paper, made anew."""
        self.model.scenario, self.model.mode, self.model.context = scenario, mode, context
        self.paper.summaries.all().delete()
        return summarised(self.paper)


CHECKS: dict[str, Callable[[World, str], None]] = {}


def check(kind: str) -> Callable[[Callable[[World, str], None]], Callable[[World, str], None]]:
    """Registers the check of a kind."""

    def keep(function: Callable[[World, str], None]) -> Callable[[World, str], None]:
        CHECKS[kind] = function
        return function

    return keep


def made(number: int = 9, **fields: Any) -> Paper:
    """A stored paper, as a feed would bring it."""
    names = fields.pop("names", ["Ada Cole"])
    values = {"title": "A title", "abstract": "Words.", "primary_category": "cs.LG"} | fields
    values["title"], values["abstract"] = map(without_tex, (values["title"], values["abstract"]))
    authors = [{"name": name, "affiliation": ""} for name in names]
    return Paper.objects.create(arxiv_id=f"2601.{number:05}", authors=authors, **values)


@check("TeX accents in author names of the RSS feed")
def _names(world: World, _text: str) -> None:
    batch = parse_feed(FEED.encode(), "cs.LG", DAY)
    stored = store_papers(batch.entries, DAY, prepare(batch.entries))["2512.00010"]
    for shown in (ris(stored), json.dumps(csl(stored), ensure_ascii=False), bibtex(stored)):
        assert "Schölking" in shown
        assert "Bojak" in shown
    assert "Bernhard Schölking, Ondřej Bojak" in " ".join(
        re.sub(r"<[^>]+>", "", world.client.get("/papers/2512.00010/").content.decode()).split()
    )
    for query in ("Schölking", "author:Schölking", "author:schoelking", "Schol*"):
        if query != "author:schoelking":
            assert stored.pk in [one.pk for one in search(query).papers]
    rules = Rules((Keyword("author:Bernhard Schölking"),))
    assert Scorer([rules]).kept([Candidate("x", "T", "", authors=tuple(stored.author_names))])[0]


@check("strict JSON schema holds a keyword OpenAI refuses")
def _strict(world: World, _text: str) -> None:
    assert world.summary(mode="openai").state == "done"
    assert world.model.requests[-1]["response_format"]["type"] == "json_schema"


@check("reasoning before the answer in other marks than a leading <think>…</think>")
def _reasoning(world: World, _text: str) -> None:
    for scenario in ("closing_mark", "thinking", "two_blocks", "text_before", "seed"):
        assert world.summary(scenario).state == "done", scenario


@check("content is a list of parts")
def _parts(world: World, _text: str) -> None:
    assert world.summary("parts").state == "done"


@check("HTTP 200 with an error object")
def _error(world: World, _text: str) -> None:
    summary = world.summary("error_429")
    assert summary.state == "waiting"
    assert "rate limited upstream" in summary.reason


@check("TeX with one backslash that is a JSON escape")
def _escape(world: World, _text: str) -> None:
    summary = world.summary("tex")
    assert r"3.5$\times$ faster" in summary.gist
    assert ">×<" in summary.gist_html
    assert "imes" not in re.sub(r"<annotation.*?</annotation>", "", world.page())


@check("near-JSON of small models")
def _near(world: World, _text: str) -> None:
    for scenario in (
        *("trailing_comma", "comment", "second_object", "remark", "wrapped", "null_unit"),
        *("capital_direction", "many_claims", "long_gist", "null_relations"),
    ):
        before = len(world.model.requests)
        assert world.summary(scenario).state == "done", scenario
        assert len(world.model.requests) <= before + 2, scenario


def _long(world: World) -> None:
    world.arxiv.clear()
    text = "<p>" + "Sparse attention folds strides and is 3.5x faster. " * 1600 + "</p>"
    for number in (1, 2):
        page = world.arxiv.expect_request(f"/html/2512.{number:05}v1")
        page.respond_with_data(f"<article>{text}</article>")


@check("server silently truncates the prompt")
def _truncated(world: World, _text: str) -> None:
    _long(world)
    assert world.summary(mode="ollama", context=4096).state == "done"
    assert re.search(r"The model did not read about \d\d % of it", world.page())


@check("context length exceeded")
def _context(world: World, _text: str) -> None:
    _long(world)
    assert world.summary(mode="vllm", context=4096).state == "done"
    before = len(world.model.requests)
    world.paper = Paper.objects.create(arxiv_id="2512.00002", title="T", abstract="A")
    assert world.summary(mode="vllm", context=4096).state == "done"
    assert len(world.model.requests) == before + 1


@check("two papers with one citation key in one file")
def _keys(_world: World, _text: str) -> None:
    papers = [
        made(1, title="Efficient A", names=["Li Zhang"]),
        made(2, title="Efficient B", names=["Wei Zhang"]),
    ]
    read = parse_string(FILES["bib"][1](papers), "bibtex")  # raises for a repeated entry
    assert list(read.entries) == ["zhang2026efficient", "zhang2026efficienta"]
    assert [one["id"] for one in json.loads(FILES["csl.json"][1](papers))] == list(read.entries)


@check("TeX specials in text of a BibTeX field")
def _specials(_world: World, _text: str) -> None:
    assert r"SWE\_bench\_x and M\textasciicircum{}3" in bibtex(made(title="SWE_bench_x and M^3"))
    assert r"Pay \$5 for it" in bibtex(made(10, title="Pay $5 for it"))


@check("generational suffix")
def _suffix(_world: World, _text: str) -> None:
    stored = made(names=["Ada Cole III", "Ada B. Cole, Jr."])
    assert "AU  - Cole, Ada, III" in ris(stored)
    assert "AU  - Cole, Ada B., Jr." in ris(stored)
    assert {"family": "Cole", "given": "Ada", "suffix": "III"} in csl(stored)["author"]  # type: ignore[operator]
    assert bibtex(stored).startswith("@misc{cole2026title,")


@check("journal reference in CSL")
def _journal(_world: World, _text: str) -> None:
    assert csl(made(journal_ref="J. Foo 5 (2024) 12-34"))["note"] == "J. Foo 5 (2024) 12-34"


@check("arXiv DOI as identifier")
def _doi(_world: World, text: str) -> None:
    for part in text.split(" ; "):
        assert [one.arxiv_id for one in references(part)] == ["2301.01234"]


@check("@ in the text of a BibTeX entry")
def _at(_world: World, text: str) -> None:
    (one,) = references(text)
    assert (one.arxiv_id, one.title) == ("2301.01234", "Good Coder")
    assert one.abstract == "pass@1 (one try)"


@check("RIS values over several lines")
def _lines(_world: World, text: str) -> None:
    title, abstract = text.replace("\\n", "\n").split(" / ")
    (one,) = references(f"TY  - JOUR\n{title}\n{abstract}\nER  - \n")
    assert one.title == "A long title that wraps around"
    assert one.abstract == "First. Second line."


@check("entry inside @comment")
def _comment(_world: World, text: str) -> None:
    assert references(text) == []


@check("pasted addresses of a paper")
def _addresses(world: World, _text: str) -> None:
    stored = made(1002)
    for pasted in (
        *("arxiv.org/abs/2601.01002", "https://arxiv.org/html/2601.01002v1"),
        *("https://arxiv.org/abs/2601.01002?context=cs", "10.48550/arXiv.2601.01002"),
        "https://huggingface.co/papers/2601.01002",
    ):
        assert [one.pk for one in search(pasted).papers] == [stored.pk], pasted
        answer = world.client.get(f"/api/v1/papers/{pasted}")
        assert answer.json()["id"] == "2601.01002", pasted


@check("letters without decomposition in search")
def _letters(_world: World, _text: str) -> None:
    stored = made(title="Weiß of Işık", names=["Łukasz Żak", "Hans Ørsted"])
    for query in ("Lukasz Zak", "Orsted", "Weiss", "Isik", 'author:"Lukasz Zak"'):
        assert [one.pk for one in search(query, relax=False).papers] == [stored.pk], query


@check("formulas and accents in keywords")
def _keywords(_world: World, text: str) -> None:
    for pair in text.replace("\\\\", "\\").split("; "):
        keyword, title = pair.split(" / ")
        scorer = Scorer([Rules((Keyword(keyword.strip()),))])
        assert scorer.kept([Candidate("x", title.strip(), "")])[0], pair


@check("\\mathop{…} in a formula")
def _mathop(_world: World, text: str) -> None:
    assert "argmin" in render(text)
    for formula in (
        r"$\mathop{\rm argmax}_x$",
        r"$\mathop{\arg\max}$",
        r"$\mathop{argmin} f$",
        r"$a \mathrel{\mathrm{argmin}} b$",
    ):
        assert re.search("arg(max|min)", re.sub(r"<[^>]+>|\s", "", render(formula))), formula


@check("groups and switches outside formulas")
def _groups(_world: World, text: str) -> None:
    shown = [without_tex(part) for part in text.split(" ; ")]
    assert shown[:5] == ["Øre", "Foo", "abc", "<5", "£ 5"]
    assert "here" in shown[5]
    assert "\\" not in "".join(shown)


@check("several authors in the feeds we write")
def _feeds(world: World, _text: str) -> None:
    stored = made(names=["Ada Cole", "Łukasz Żak", "Bo Ohm"], announced_on=DAY)
    listing = stored.announcements.model.listing.field.related_model.objects.create(
        category="cs.LG", date=DAY, state="complete", source="rss", polled_at="2025-12-18T05:00Z",
        changed_at="2025-12-18T05:00Z",
    )  # fmt: skip
    stored.announcements.create(listing=listing, type="new", version=1)
    rss = feedparser.parse(world.client.get("/category/cs.LG.rss").content).entries[0]
    assert rss.author == "Ada Cole, Łukasz Żak, Bo Ohm"
    atom = feedparser.parse(world.client.get("/category/cs.LG.atom").content).entries[0]
    assert [one.name for one in atom.authors] == stored.author_names


@check("phrases of withdrawal")
def _withdrawn(_world: World, text: str) -> None:
    for phrase in re.findall(r"'([^']+)'", text):
        if phrase.startswith(("has", "contains")):
            assert Paper(comment=f"This paper {phrase}").withdrawn, phrase
        elif phrase.startswith("submission"):
            assert Paper(comment=f"This {phrase}").withdrawn, phrase
        else:
            assert Paper(comment=phrase).withdrawn, phrase


@check("text after the references of a PDF")
def _appendix(_world: World, _text: str) -> None:
    words = "A sentence about attention and its cost. " * 20
    pages = [f"1 Introduction\n{words}", "References\n[1] A. Body. 2020.", "Appendix\n77.7%"]
    assert "77.7%" in "".join(one.text for one in sections_of_pdf(pdf(pages)))


@check("gzip;q=0")
def _gzip(world: World, _text: str) -> None:
    for header in ("gzip;q=0", "identity, gzip;q=0.0", "*;q=0"):
        for address in ("/search?q=attention", "/api/v1/papers?q=x", "/"):
            answer = world.client.get(address, headers={"Accept-Encoding": header})
            assert not answer.has_header("Content-Encoding"), (header, address)
    answer = world.client.get("/search?q=attention", headers={"Accept-Encoding": "gzip;q=0.5"})
    assert answer["Content-Encoding"] == "gzip"


def _conversations(world: World, text: str, name: str = "x.json", **names: str) -> int:
    from methods.token_pruning.data import instruct

    (world.folder / name).write_text(text, **names)
    return len(instruct(world.folder, skip=True)[0])


def _picture(world: World, name: str) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(world.folder / name)


RECORD = {
    "image": "a.png",
    "conversations": [{"from": "human", "value": "What?"}, {"from": "gpt", "value": "A cat."}],
}


@check("BOM in LLaVA JSON")
def _bom(world: World, _text: str) -> None:
    _picture(world, "a.png")
    assert _conversations(world, json.dumps([RECORD]), encoding="utf-8-sig") == 1


@check("other LLaVA records")
def _records(world: World, _text: str) -> None:
    from methods.errors import InputError
    from methods.token_pruning.data import instruct

    _picture(world, "a.png")
    other = json.dumps(RECORD).replace("human", "user").replace("gpt", "assistant")
    assert _conversations(world, f"{other}\n{other}\n", "x.jsonl") == 2
    (world.folder / "x.jsonl").write_text(json.dumps(RECORD | {"image": ["a.png", "a.png"]}))
    with pytest.raises(InputError, match="2 images"):
        instruct(world.folder)


TABLE = """<article class="ltx_document"><p>{filler}</p><figure class="ltx_table" id="T1">
<figcaption>Table 1: Accuracy in percent.</figcaption><table class="ltx_tabular">
<tr class="ltx_tr"><th class="ltx_td ltx_th">Model</th><th class="ltx_td ltx_th">Accuracy</th></tr>
<tr class="ltx_tr"><td class="ltx_td">Wren</td>
<td class="ltx_td">85<sup class="ltx_sup">1</sup></td></tr>
<tr class="ltx_tr"><td class="ltx_td">Tit</td><td class="ltx_td">71.2<math
alttext="_{{\\uparrow 1.3}}"></math></td></tr></table></figure></article>"""


def _values(world: World) -> list[tuple[str, str | None]]:
    """The values of the paper's table in the API, after its HTML was read."""
    world.arxiv.clear()
    page = world.arxiv.expect_request("/html/2512.00001v1")
    page.respond_with_data(
        TABLE.format(filler="Words about birds. " * 60), content_type="text/html"
    )
    assert world.summary().state == "done"
    read = world.client.get("/api/v1/papers/2512.00001/tables").json()["tables"]
    return [(str(value["value"]), value["note"]) for value in read[0]["values"]]


@check("numbered note of a table cell")
def _note(world: World, _text: str) -> None:
    assert _values(world)[0][0] == "85"
    assert "851" not in world.page()
    assert "851" not in json.dumps(world.model.requests)


@check("gain set small behind a value")
def _gain(world: World, _text: str) -> None:
    value, note = _values(world)[1]
    assert (value, (note or "")[-3:]) == ("71.2", "1.3")


def _instead(world: World, status: int, body: Any, when: Callable[[Any], bool]) -> None:
    """Answer so in the model's place, when a request is such; the model answers all others."""

    def answer(request: Request) -> Response:
        asked = json.loads(request.get_data())
        if when(asked):
            return Response(json.dumps(body), status, content_type="application/json")
        given = httpx2.post(f"{model_url}/chat/completions", json=asked, timeout=None)
        kind = given.headers["content-type"]
        return Response(given.content, given.status_code, content_type=kind)

    model_url = os.environ["OPENAI_BASE_URL"]
    world.arxiv.expect_request("/v1/chat/completions").respond_with_handler(answer)
    os.environ["OPENAI_BASE_URL"] = world.arxiv.url_for("/v1")  # the fixture takes it back


@check("model without a system role")
def _system_role(world: World, _text: str) -> None:
    refusal = {"error": {"message": "Developer instruction is not enabled for models/gemma-3"}}
    has_role = lambda asked: any(m["role"] == "system" for m in asked["messages"])  # noqa: E731
    _instead(world, 400, refusal, has_role)
    assert world.summary().state == "done"


@check("error text in a bare string")
def _bare_error(world: World, _text: str) -> None:
    told = "model requires more system memory (9.1 GiB) than is available (4.2 GiB)"
    _instead(world, 400, {"error": told}, lambda _: True)
    assert world.summary().state == "failed"
    assert told in world.page()


@check("error body is a string or detail")
def _detail(world: World, _text: str) -> None:
    _instead(world, 400, {"detail": "bad thing"}, lambda _: True)
    assert world.summary().state == "failed"
    assert "bad thing" in world.page()


@check("answer is JSON in a JSON string")
def _string_of_json(world: World, _text: str) -> None:
    answer = honest_summary(world.paper.abstract) | {"gist": r"It is $3.5\times$ faster than that."}
    world.model.given = json.dumps(json.dumps(answer))
    summary = world.summary()
    assert (summary.state, ">×<" in summary.gist_html) == ("done", True)
    assert "unverified" not in summary.gist_html


@check("pasted blanks and addresses in the Zotero form")
def _zotero_form(world: World, _text: str) -> None:
    world.client.force_login(User.objects.get(username="reader"))
    for library, name in (
        (" users/123", "users/123"),
        ("https://www.zotero.org/groups/123/name", "groups/123"),
    ):
        sent = {"library": library, "key": "AbCdEfGh12345678\n"}
        answer = world.client.post("/library/zotero/", sent, follow=True)
        assert name in answer.content.decode()
        world.client.post("/library/zotero/", {"forget": "1"})


@check("addresses where papers are read")
def _reading_sites(world: World, _text: str) -> None:
    made(1002)
    for address in ("https://papers.cool/arxiv/2601.01002", "arxiv.org/abs/arXiv:2601.01002"):
        answer = world.client.get("/search", {"q": address}, follow=True)
        assert "2601.01002" in answer.content.decode()
        assert world.client.get(f"/api/v1/papers/{address}").json()["id"] == "2601.01002"


@check("apostrophes and hyphens in author: keywords")
def _names_of_keywords(world: World, _text: str) -> None:
    pairs = [("Pat O'Neil", "Pat O’Neil"), ("Pat O’Neil", "Pat O'Neil")]
    pairs += [("Jean-Luc Fort", "Jean Luc Fort")]
    for number, (keyword, author) in enumerate(pairs, 20):
        stored = made(number, names=[author])
        found = world.client.get("/api/v1/papers", {"q": f'author:"{keyword}"'}).json()["items"]
        assert stored.arxiv_id in {one["id"] for one in found}, keyword
        scorer = Scorer([Rules((Keyword(f"author:{keyword}"),))])
        assert scorer.kept([Candidate("x", "T", "", authors=(author,))])[0], keyword


@check("\\ell in search and keywords")
def _ell(world: World, _text: str) -> None:
    stored = made(30, title=r"Budgets in $\ell_1$")
    for query in ("l1", "ℓ1", "L1"):
        found = world.client.get("/api/v1/papers", {"q": query}).json()["items"]
        assert [one["id"] for one in found] == [stored.arxiv_id], query
        scorer = Scorer([Rules((Keyword(query),))])
        assert scorer.kept([Candidate("x", stored.title, "")])[0], query


@check("several DOIs in one field")
def _dois(world: World, _text: str) -> None:
    stored = made(31, doi="10.1000/a 10.2000/b")
    for suffix in ("bib", "ris"):
        answer = world.client.get(f"/papers/{stored.arxiv_id}.{suffix}")
        assert answer.status_code == 200, suffix
        assert b"10.1000/a" in answer.content, suffix
        assert b"10.1000/a 10.2000/b" not in answer.content, suffix


@check("lone escaped brace")
def _brace(world: World, _text: str) -> None:
    made(32)
    world.client.force_login(User.objects.get(username="reader"))
    text = "@misc{a, title = {On \\{ alone}, eprint={2601.00032}}"
    page = world.client.post("/library/import/", {"text": text}).content.decode()
    assert Star.objects.filter(paper__arxiv_id="2601.00032").exists()
    assert "eprint" not in page.partition("<textarea")[0]


@check("several dc:creator in the feed we read")
def _creators(world: World, _text: str) -> None:
    two = "<dc:creator>Ada Cole</dc:creator><dc:creator>Ben Dale</dc:creator>"
    feed = re.sub(r"<dc:creator>.*?</dc:creator>", two, FEED, flags=re.DOTALL)
    batch = parse_feed(feed.encode(), "cs.LG", DAY)
    store_papers(batch.entries, DAY, prepare(batch.entries))
    page = world.client.get("/api/v1/papers/2512.00010").json()
    assert page["authors"] == ["Ada Cole", "Ben Dale"]


@check("blanks in names of lists by API and MCP")
def _lists(world: World, _text: str) -> None:
    stored = made(33)
    token = tokens.make(User.objects.get(username="reader"), "program", ["library"])
    headers = {"Authorization": f"Bearer {token}"}

    def lists(given: list[str]) -> Any:
        address = f"/api/v1/library/{stored.arxiv_id}"
        body = json.dumps({"lists": given})
        return world.client.patch(address, body, "application/json", headers=headers)

    assert sorted(lists(["a", "A", "a "]).json()["lists"]) == ["A", "a"]
    assert lists(["x  y"]).json()["lists"] == ["x y"]


# Kinds that need more than a page: a proxy, torch, a service at Zotero, a machine's limits.
ELSEWHERE = {
    "public port other than 443 behind the documented proxy": "test_proxy.py",
    "Origin: null": "test_proxy.py",
    "address without /v1": "operate/test_connecting.py",
    "arXiv number with its class in Zotero items": "library/test_zotero_reading.py",
    "static cache with left padding in transformers": "methods/sparse_attention/test_contract.py",
    "CPU quota of a container": "methods/measure/test_control_groups.py",
}
# The paths of data directories are tried in tests/test_lost_databases.py, where sites are made.
LINES_HERE = [
    line
    for line in LINES
    if not line["kind"].startswith("data directory") and line["kind"] not in ELSEWHERE
]


@pytest.mark.parametrize("line", LINES_HERE, ids=lambda line: line["kind"][:40])
def test_what_broke_others_is_right_here(
    line: dict[str, str], model: OpenAIServer, paper: Paper, arxiv: HTTPServer, tmp_path: Path
) -> None:
    User.objects.create_user("reader")
    CHECKS[line["kind"]](World(model, paper, arxiv, tmp_path), line["input"])


def test_a_version_that_does_not_exist_says_so(client: Client) -> None:
    made(1002)
    said = "2601.01002 has no version 9. The latest here is version 1."
    for address in (
        *("/papers/2601.01002v9/", "/search?q=https://arxiv.org/abs/2601.01002v9"),
        "/api/v1/papers/2601.01002v9",
    ):
        assert said in client.get(address).content.decode(), address
    assert said not in client.get("/search?q=2601.01002v1").content.decode()
    assert client.get("/papers/2601.01002v1/").status_code == 302


def test_every_line_has_a_check() -> None:
    assert {line["kind"] for line in LINES_HERE} == CHECKS.keys()
    assert all((ROOT / "tests" / file).is_file() for file in ELSEWHERE.values())
