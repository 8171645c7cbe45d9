from __future__ import annotations

import re
from datetime import date

import pytest
from django.db import connection
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from tests.factories import make_paper, make_reader
from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.test_store import entry
from webapp.core import tasks
from webapp.learning import postings
from webapp.papers.days import DAY
from webapp.papers.entries import Author, Batch
from webapp.papers.models import Listing, Paper
from webapp.papers.search import MAX_PAGES, PAGE, filters, search, spelling
from webapp.papers.search.query import MAXTERMS, Query, QueryTerm, parse, words_of
from webapp.papers.search.words import other_spelling
from webapp.papers.store import store_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def papers() -> None:
    tuesday = (
        entry(1, title="Sparse attention for lanterns", abstract="Costs of serving.",
              authors=(Author("Ada Quill", "Moss Lab"),), categories=("cs.CL", "cs.LG")),
        entry(2, title="Dense decoding", abstract="No sparse weights: attention is dense.",
              authors=(Author("Lúcia Attention"),), categories=("cs.LG",)),
    )  # fmt: skip
    wednesday = (
        entry(3, title="Quantized boats", abstract="Boats are quantized to four bits.",
              authors=(Author("Bram Ohm"), Author("Nguyễn Thị Ế")),
              categories=("hep-th", "math.CO")),
    )  # fmt: skip
    for day, entries in ((WEDNESDAY - DAY, tuesday), (WEDNESDAY, wednesday)):
        store_batch(Batch("cs.CL", day, entries), Listing.Source.RSS, noon(day), {})


def found(query: str, category: str | None = None, since: date | None = None) -> list[int]:
    """The papers that match the whole query."""
    results = search(query, category, since)
    return [int(paper.arxiv_id.split(".")[1]) for paper in results.papers[: results.some_from]]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("sparse attention", [1, 2]),  # in the title first
        ("Sparse  ATTENTION", [1, 2]),
        ('"sparse attention"', [1]),
        ("ti:attention", [1]),
        ("abs:attention", [2]),
        ("au:attention", [2]),
        ("au:quill", [1]),
        ("lucia", [2]),
        ("lúcia", [2]),
        ("nguyen", [3]),  # two accents on one letter
        ("au:nguyễn", [3]),
        ("attention -dense", [1]),
        ("-dense", []),
        ("quantize", [3]),
        ("boat", [3]),
        ("lant*", [1]),
        ("lant", []),
        ("lab", []),  # affiliations are no words of the paper
        ("cs.LG attention", [1, 2]),
        ("cat:cs.LG attention", [1, 2]),
        ("cat:cs.CL attention", [1]),
        ("category:cs.CL attention", [1]),
        ("author:attention", [2]),
        ("title:attention", [1]),
        ("abstract:attention", [2]),
        ("after:2026-03-04", [3]),
        ("attention -attention", []),
        ("attention after:2026-03-04", []),
        ("boats after:2026-03-04", [3]),
        ("boats before:2026-03-04", []),
        ("attention before:2026-03-04", [1, 2]),
        ("attention year:2026", [1, 2]),
        ("attention year:2025", []),
        ("attention date:2026-03-03", [1, 2]),
        ("attention year:never", [1, 2]),
        ("cs.CL", [1]),
        ("hep-th", [3]),
        ("HEP-TH", [3]),
        ("cs.cl, attention", [1]),
        ("https://arxiv.org/list/hep-th/recent", [3]),
        ("arxiv.org/list/cs.CL/new?show=50", [1]),
        ("https://www.example.org/attention", []),
        ("https://arxiv.org/abs/2603.99991v2", []),
        ("2603.00003", [3]),
        ("arXiv:2603.00003v2", [3]),
        ("https://arxiv.org/abs/2603.00003", [3]),
        ("2603.99999", []),
        ("[2603.00003] Quantized ships", [3]),  # the title of arXiv's page
        ("请看2603.00003这篇", [3]),
        ("arXiv 2603.00003 v2", [3]),
        ("2603.00003，2603.00001。", [3, 1]),
        ("https://www.example.org/url?q=https://arxiv.org/abs/2603.00003&sa=D", [3]),
        ("title:2603.00003", [3]),
        ("nowhere", []),
        ("", []),
        ("  ", []),
    ],
)
def test_what_a_query_finds(papers: None, query: str, numbers: list[int]) -> None:
    assert found(query) == numbers


@pytest.mark.parametrize("query", ["2603.99990", "arXiv:2603.99990v2", "arxiv.org/pdf/2603.99990"])
def test_a_paper_that_is_not_here_can_be_fetched(
    papers: None, client: Client, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, object]] = []

    def send(name: str, given: list[object], **_: object) -> bool:
        sent.append((name, given[-1]))
        return True

    monkeypatch.setattr(tasks, "send", send)
    make_paper(9, title="A paper about 2603 and 99990", abstract="arXiv, abs, pdf")
    page = client.get("/search", {"q": query}).content.decode()
    assert "2603.99990 is not on this site" in page
    assert 'href="https://arxiv.org/abs/2603.99990"' in page
    assert 'action="/library/import/"' not in page
    client.force_login(make_reader())
    page = client.get("/search", {"q": query}).content.decode()
    hidden = re.search(r'action="/library/import/".*?name="text" value="([^"]*)"', page, re.DOTALL)
    assert hidden
    client.post("/library/import/", {"text": hidden[1]})  # the button
    assert sent == [("site.save_named", ["2603.99990"])]


def test_an_address_without_a_paper_finds_nothing_and_says_so(papers: None, client: Client) -> None:
    for address in ("https://www.example.org/attention", "www.boats.org/a?q=boats"):
        page = client.get("/search", {"q": address}).content.decode()
        assert "This address names no arXiv paper." in page
        assert 'class="paper' not in page


def test_category_and_day_narrow_it(papers: None) -> None:
    assert found("attention", "cs.LG") == [1, 2]
    assert found("attention", "cs.CL") == [1]
    assert found("", "hep-th") == [3]
    assert found("", "hep-ph") == []
    assert found("", "cs") == []
    assert found("attention", since=WEDNESDAY) == []
    assert found("boats", since=WEDNESDAY) == [3]
    assert found("boats", since=WEDNESDAY + DAY) == []
    assert found("boats after:2026-03-05", since=WEDNESDAY) == []
    assert found("", "';--", since=WEDNESDAY - DAY) == []


def test_pages_follow_one_another() -> None:
    entries = tuple(entry(n) for n in range(PAGE + 3))
    store_batch(Batch("cs.CL", WEDNESDAY, entries), Listing.Source.RSS, noon(WEDNESDAY), {})
    first, second, third = (search("boats", page=number) for number in (1, 2, 3))
    assert (len(first.papers), first.has_next) == (PAGE, True)
    assert (len(second.papers), second.has_next) == (3, False)
    assert (third.papers, third.has_next) == ([], False)
    assert not {paper.pk for paper in first.papers} & {paper.pk for paper in second.papers}
    assert search("boats", page=-4).page == 1
    assert search("boats", page=10**9).page == MAX_PAGES


def test_the_index_follows_every_change(papers: None) -> None:
    Paper.objects.filter(arxiv_id="2603.00001").update(title="Zebra unicorns")
    assert found("zebra unicorn") == [1]
    assert found("ti:lanterns") == []
    better = entry(2, version=2, title="Dense zebras", authors=(Author("Cleo Peat"),))
    store_batch(Batch("cs.CL", WEDNESDAY, (better,)), Listing.Source.RSS, noon(WEDNESDAY), {})
    assert found("zebra") == [1, 2]
    assert found("au:peat") == [2]
    assert found("au:lúcia") == []
    Paper.objects.all().delete()
    assert found("zebra") == []


def test_the_index_outlives_every_migration() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%paper_search'")
        else:
            cursor.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                " AND name GLOB 'papers_search*' ORDER BY name"
            )
        names = [name for (name,) in cursor.fetchall()]
    assert names == (
        ["papers_paper_search"]
        if connection.vendor == "postgresql"
        else ["papers_search_add", "papers_search_change", "papers_search_remove"]
    )


def test_terms() -> None:
    assert parse('ti:"long-context  x" -au:Ohm quant*') == Query(
        (
            QueryTerm(("long", "context", "x"), "title"),
            QueryTerm(("ohm",), "authors", exclude=True),
            QueryTerm(("quant",), prefix=True),
        )
    )


def test_a_short_word_is_no_prefix_and_a_rest() -> None:
    assert QueryTerm(("pretraining",)).spellings() == [("pretraining",), ("pre", "training")]
    assert QueryTerm(("preen",)).spellings() == [("preen",)]


def test_dates_of_a_query() -> None:
    asked = parse("x after:2026-02 before:2026-03-01")
    assert (asked.since, asked.until) == (date(2026, 2, 1), date(2026, 2, 28))
    assert parse("year:2024").until == date(2024, 12, 31)
    assert parse("date:2024-02").until == date(2024, 2, 29)
    assert parse("year:2024-13").since is None
    both = parse("after:2026-02 year:2026 before:2026-03 date:2026")
    assert (both.since, both.until) == (date(2026, 2, 1), date(2026, 2, 28))
    for text in ("before:0001", "after:0000-05", "year:9999"):  # no day to be counted from
        assert (parse(text).since, parse(text).until) == (None, None)


@pytest.fixture
def spellings() -> None:
    titles = {
        1: "Pretraining of owls",
        2: "Pre-training of doves",
        3: "Owls in C++ and in Rust",
        4: "A grammar of C",
        5: "Fine tuning of pianos",
    }
    entries = tuple(entry(n, title=t, abstract="Nothing else.") for n, t in titles.items())
    store_batch(Batch("cs.CL", WEDNESDAY, entries), Listing.Source.RSS, noon(WEDNESDAY), {})


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("pretraining", [1, 2]),
        ("pre-training", [1, 2]),
        ("pre training", [2]),
        ("fine-tuning", [5]),
        ("finetuning", [5]),
        ("C++", [3]),
        ("owls C++", [3]),
        ("owl zqxvish", [1, 3]),  # a word that no paper holds is left out, and named
    ],
)
def test_spellings(spellings: None, query: str, numbers: list[int]) -> None:
    assert sorted(found(query)) == numbers


def test_what_is_left_out_is_named(spellings: None) -> None:
    assert search("owl zqxvish").dropped == ("zqxvish",)
    phrase = search('"owls pianos"')  # which no paper has: its words are better than nothing
    assert sorted(paper.arxiv_id[-1] for paper in phrase.papers) == ["1", "3", "5"]
    assert (phrase.count, phrase.some) == (0, 3)
    assert search("zqxvish").papers == []


def test_order_of_relevance_and_of_days() -> None:
    words = "sparse attention"
    texts = [
        (1, "Attention that is sparse", "Once.", WEDNESDAY - 4 * DAY),
        (2, "Sparse attention", "Once.", WEDNESDAY - 5 * DAY),
        (3, "A study of something else", f"On {words} and {words}.", WEDNESDAY),
        (4, "A study of something else", "Sparse weights. Attention.", WEDNESDAY),
        (
            5,
            "Of a long title in which sparse attention is one of very many words",
            "No.",
            WEDNESDAY,
        ),
    ]
    for number, title, abstract, day in texts:
        paper = entry(number, title=title, abstract=abstract)
        store_batch(Batch("cs.CL", day, (paper,)), Listing.Source.RSS, noon(day), {})
    assert found(words) == [2, 5, 1, 3, 4]
    newest = search(words, order="newest").papers
    assert [paper.arxiv_id[-1] for paper in newest][-2:] == ["1", "2"]
    counted = search(words)
    assert (counted.count, counted.more) == (5, False)


QUESTION = "How can lips be read with diffusion language models?"


@pytest.fixture
def lips() -> None:
    texts = (
        (1, "Reading lips with diffusion", "A decoder denoises the transcript of a silent video."),
        (2, "Diffusion of ink", "Language models of a kind."),
        (3, "Languages and their models", "Of languages."),
        (4, "Kites", "Nothing of this, and how!"),
    )
    for number, title, abstract in texts:
        stored(number, title, abstract, WEDNESDAY - number * DAY)


def test_a_question_in_ordinary_words_has_an_answer(lips: None) -> None:
    """No paper has every word: those with some follow, rare words and more of them first."""
    results = search(QUESTION)
    assert [paper.arxiv_id[-1] for paper in results.papers] == ["1", "2", "3"]
    assert (results.count, results.some, results.some_from) == (0, 3, 0)
    assert [one.paper.arxiv_id[-1] for one in results.marked()] == ["1", "2", "3"]
    newest = search(QUESTION, order="newest")
    assert [paper.arxiv_id[-1] for paper in newest.papers] == ["1", "2", "3"]


def test_papers_with_all_words_come_before_those_with_some(lips: None) -> None:
    results = search("language models diffusion")
    assert [paper.arxiv_id[-1] for paper in results.papers] == ["2", "1", "3"]
    assert (results.count, results.some, results.some_from) == (1, 2, 1)
    assert search("language models diffusion", relax=False).some == 0


def test_what_is_asked_for_exactly_holds_for_papers_with_some_words(lips: None) -> None:
    def some(query: str, category: str | None = None) -> list[str]:
        results = search(query, category)
        return [paper.arxiv_id[-1] for paper in results.papers[results.some_from or 0 :]]

    assert some('"language models" lips diffusion') == ["2"]
    assert some("ti:diffusion lips kites") == ["1"]
    assert some("lips language kites -ink") == ["4", "1", "3"]
    assert some(f"lips kites after:{WEDNESDAY - 2 * DAY}") == ["1"]
    assert some("lips kites", "hep-th") == []


def test_words_that_say_nothing_are_not_asked_for(lips: None) -> None:
    """A title has no "how" and no "can"; a paper that has them is no better for it."""
    assert search("how can reading lips with diffusion").count == 1
    assert search("how can this be").some == 0


@pytest.mark.parametrize("asked", ["behaviour tokenisation", "behavior tokenization"])
def test_british_and_american_spelling_find_each_other(asked: str) -> None:
    stored(1, "Tokenisation", "Of owls, and how we analyse their behaviour.")
    stored(2, "Tokenization", "Of the behavior of doves, in fine fibers.")
    stored(3, "Tokens", "We behave.")
    assert sorted(found(asked)) == [1, 2]
    assert found("author:tokenization") == []
    # Where no paper has all words, too; "some" are ordered by the words in either spelling.
    assert [paper.arxiv_id[-1] for paper in search("zebras analyze behaviors").papers] == ["1", "2"]
    assert [paper.arxiv_id[-1] for paper in search("zebra fibre").papers] == ["2"]


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("colourful", "colorful"),
        ("organized", "organised"),
        ("centre", "center"),
        ("four", "four"),
        ("noise", "noise"),
        ("size", "size"),
        ("using", "using"),
        ("this", "this"),
    ],
)
def test_the_other_spelling_of_a_word(word: str, other: str) -> None:
    assert (other_spelling(word), other_spelling(other)) == (other, word)


def test_of_a_long_question_the_words_that_tell_are_asked_for(lips: None) -> None:
    question = "Is there any paper that I could read about how it can be that they read the lips?"
    assert len(question.split()) > MAXTERMS
    assert search(question).papers[0].title == "Reading lips with diffusion"


def test_words_of_someone_who_asks_somebody_are_no_words_of_a_paper(lips: None) -> None:
    asked = search("please recommend recent papers about diffusion of ink")
    assert (asked.papers[0].arxiv_id[-1], asked.count) == ("2", 1)
    stored(7, "Papers", "Of pulp.")
    assert found("papers") == [7]  # alone they are


@pytest.mark.parametrize(
    ("question", "suggestion"),
    [
        ("diffusion but not language models?", 'diffusion -"language models"'),
        ("diffusion, except in ink or video", "diffusion -ink -video"),
        ("diffusion excluding the ink", "diffusion -ink"),
        ("zebras but not ink", "zebras -ink"),
        ("diffusion but not", ""),
        ("diffusion does not read", ""),
        ('"seen but not read"', ""),
    ],
)
def test_a_question_that_leaves_something_out_is_suggested_so(
    lips: None, question: str, suggestion: str
) -> None:
    """Not done unasked: a title may have these words."""
    assert search(question).suggestion == suggestion


def test_a_question_in_chinese_is_told_what_papers_are_written_in(client: Client) -> None:
    stored(1, "Diffusion", "Of ink.")
    told = "papers are in English"
    assert told in client.get("/search", {"q": "扩散语言模型"}).content.decode()
    assert told not in client.get("/search", {"q": "nowhere"}).content.decode()


def test_of_many_papers_with_some_words_the_best_are_found_not_the_latest() -> None:
    stored(1, "Lips are read", "By diffusion.", WEDNESDAY - 400 * DAY)
    batch = tuple(entry(n, title=f"Diffusion model {n}") for n in range(100, 800))
    store_batch(Batch("cs.CL", WEDNESDAY, batch), Listing.Source.RSS, noon(WEDNESDAY), {})
    assert search("reading lips with diffusion models").papers[0].title == "Lips are read"


def stored(number: int, title: str, abstract: str, day: date = WEDNESDAY) -> None:
    paper = entry(number, title=title, abstract=abstract)
    store_batch(Batch("cs.CL", day, (paper,)), Listing.Source.RSS, noon(day), {})


def test_small_words_count_little() -> None:
    stored(3, "Agents", "Retrieval for the many, of the few, on the way, to the end.")
    stored(4, "Of, for, on and to the", "Agents. Retrieval.")
    assert found("agents of the retrieval for") == [3, 4]


def test_of_papers_about_alike_the_newer_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    old = WEDNESDAY - 5 * 365 * DAY
    monkeypatch.setattr("webapp.papers.search.now", lambda: noon(WEDNESDAY))
    stored(1, "A study", "Kernels and kernels.", old)
    stored(2, "A study", "Kernels.", WEDNESDAY)
    stored(3, "Kernels", "A study.", old)
    assert found("kernels") == [3, 2, 1]


def test_an_old_title_is_found_among_more_matches_than_are_ranked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webapp.papers.search.COUNTED", 7)
    monkeypatch.setattr("webapp.papers.search.CANDIDATES", 3)
    monkeypatch.setattr("webapp.papers.search.PAGE", 3)
    stored(1, "Kernels", "Of owls.", WEDNESDAY - 7 * DAY)
    for number in range(2, 9):
        stored(number, f"A study {number}", "Kernels.", WEDNESDAY)
    results = search("kernels")
    assert results.papers[0].title == "Kernels"
    assert (results.count, results.more) == (7, True)
    pages = [search("kernels", page=page) for page in (1, 2, 3)]
    reached = [paper.arxiv_id for page in pages for paper in page.papers]
    assert len(reached) == len(set(reached)) == 8  # those that are not ranked come last
    assert [page.has_next for page in pages] == [True, True, False]


def test_the_index_knows_a_paper_by_its_day(papers: None) -> None:
    def latest(query: str) -> list[int]:
        return [int(one.arxiv_id[-1]) for one in search(query, order="newest").papers]

    assert latest("attention") == [2, 1]
    Paper.objects.filter(arxiv_id="2603.00001").update(announced_on=WEDNESDAY)
    assert latest("attention") == [1, 2]
    assert latest("attention after:2026-03-04") == [1]
    assert latest("attention before:2026-03-04") == [2]
    Paper.objects.filter(arxiv_id="2603.00001").update(announced_on=None)
    assert latest("attention") == [2, 1]
    assert latest("attention before:2099") == [2]
    assert latest("ti:attention") == [1]


def test_other_rooms_answer_for_their_fields(papers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Paper.objects.get(arxiv_id="2603.00002").pk
    of_method = {"pruning": [key]}
    monkeypatch.setitem(filters._answers, "method", lambda value, _reader: of_method.get(value, []))
    assert found("attention method:pruning") == [2]
    assert found("method:pruning") == [2]
    assert found("attention method:none") == []
    assert found("attention -method:pruning") == [1]
    assert found("attention -method:none") == [1, 2]
    assert found("-method:pruning after:2026-03-03") == [3, 1]
    assert found("-method:pruning") == []


class Hostile(TestCase):
    PIECES = (
        *("AND", "OR", "NOT", "NEAR(", ")", '"', "'", "*", "-", ":", "ti:", "{a}", "a", "^"),
        *("<->", "&", "!", "|", "\\", "%s", "\x00", "NULL", "--", ";", "a*b", "_"),
    )

    def test_no_sign_of_a_database_is_an_error(self) -> None:
        for piece in self.PIECES:
            search(f"{piece} a")

    @settings(max_examples=30)
    @given(
        st.one_of(
            st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
        ),
        st.one_of(st.none(), st.text(max_size=12)),
    )
    def test_no_query_is_an_error(self, query: str, category: str | None) -> None:
        search(query, category, WEDNESDAY)


@pytest.mark.usefixtures("papers")
class TestWhatAPageSays:
    def setup_method(self) -> None:
        spelling._title_words.cache_clear()

    def marks(self, query: str) -> list[tuple[str, str]]:
        return [(one.title_html, one.abstract_html) for one in search(query).marked()]

    def test_the_words_are_marked_where_they_were_sought(self) -> None:
        (title, abstract), (other, elsewhere) = self.marks("sparse attention")
        assert (
            title == '<mark data-k="0">Sparse</mark> <mark data-k="1">attention</mark> for lanterns'
        )
        assert "<mark" not in abstract
        assert "<mark" not in other
        assert elsewhere.count("<mark") == 2

    def test_inflections_phrases_and_fields_are_marked(self) -> None:
        assert self.marks("quantize")[0][0] == '<mark data-k="0">Quantized</mark> boats'
        assert '<mark data-k="0">Sparse attention</mark>' in self.marks('"sparse attention"')[0][0]
        assert "<mark" not in self.marks("abs:boats")[0][0]
        assert "<mark" not in "".join(self.marks("au:quill for")[0])

    @pytest.mark.parametrize(
        ("query", "meant"),
        [
            ("atention", "attention"),
            ("Sprase attention", "sparse attention"),
            ("au:quil", "au:quill"),
            ("oats", "boats"),
            ("oates", ""),  # as like to "boats" as a word with one wrong letter is
            ("zebra", ""),
            ("attention", ""),
        ],
    )
    def test_a_misspelt_word_is_guessed_at(self, query: str, meant: str) -> None:
        results = search(query)
        assert results.corrected == meant
        assert bool(results.papers) is (bool(meant) or query == "attention")

    def test_of_words_as_near_the_more_frequent_is_meant(self) -> None:
        for number, title in enumerate(("Models of owls", "Modelx", "Models", "Models of it"), 60):
            stored(number, title, "Nothing.")
        assert search("modelq").corrected == "models"

    def test_what_was_left_out_is_said(self) -> None:
        results = search("lanterns zebra")
        assert (results.dropped, [p.title for p in results.papers]) == (
            ("zebra",),
            ["Sparse attention for lanterns"],
        )
        assert search("lanterns zebra", relax=False).papers == []


@pytest.mark.parametrize("query", ["mask", "cpu", "GPU", "gpt-4", "llama.cpp", '"cpu gpu"'])
def test_words_among_punctuation_are_words(query: str) -> None:
    title = "The <mask> of GPT-4, CPU/GPU and LLaMA.cpp"
    batch = Batch("cs.CL", WEDNESDAY, (entry(1, title=title),))
    store_batch(batch, Listing.Source.RSS, noon(WEDNESDAY), {})
    assert found(query) == [1]


FOLDED = [
    ("Łukasz Żak", "", ["Lukasz Zak", "author:Lukasz", 'author:"łukasz żak"', "ŁUKASZ"]),
    ("Øre Ørsted", "", ["Orsted", "ørsted", "Ørsted"]),
    ("Weiß and Strasse", "", ["Weiss", "Weiß", "weiss strasse"]),
    ("Işık of Diyarbakır", "", ["Isik", "işık", "diyarbakir"]),
    ("Đorđe Æsop þorn", "", ["dorde aesop thorn", "Đorđe"]),
    ("The ﬁne eﬀect", "", ["fine effect"]),
    (r"The $F_1$ score", "", ["F1", "F1 score", "f1", "$F_1$"]),
    (r"The $\ell_1$ norm, $\ell$", "", ["l1", "ℓ1", "L1", r"$\ell_1$", r"$\ell$"]),
    ("GPT-4o by e-mail", "", ["gpt4o", "GPT-4o", "email", "e-mail", "GPT4o email"]),
    ("GPT4o by email", "", ["gpt4o", "GPT-4o", "email", "e-mail", "GPT-4o e-mail"]),
    (r"CO$_2$ in air", "", ["CO2", '"CO2 in air"', "CO$_2$"]),
    (r"A $\beta$-VAE", "", ["β-VAE", "beta-VAE", '"β-VAE"', "$\\beta$-VAE"]),
    ("A β-VAE of λ", "", ["beta-vae lambda", "β-VAE", r"$\beta$-VAE"]),
    (r"Of $k$-means and $x^{2}$", "", ["k-means", "x2"]),
    ("稀疏注意力机制的研究", "", ["注意力", "稀疏", '"注意力机制"', "稀疏注意力机制的研究"]),
    ("naïve Bayes in Zürich", "", ["naive bayes", "zurich", "Zürich", "naïve"]),
    ("한국어 학습", "", ["학습", "한국어"]),
    ("ガウス過程", "", ["ガウス", "過程"]),
    ("Ångström Ελλάδα Привет", "", ["angstrom", "ελλάδα", "привет", "Ελλαδα"]),
    ("C++ and c# of C", "", ["c++", "C#"]),
]


@pytest.mark.parametrize(("title", "abstract", "queries"), FOLDED, ids=lambda one: str(one)[:12])
def test_a_word_is_found_however_it_is_typed(
    db: None, title: str, abstract: str, queries: list[str]
) -> None:
    other = entry(2, title="Nothing of that kind", abstract="Nothing.")
    names = (Author(title),) if "author" in str(queries) else ()
    this = entry(1, title=title, abstract=abstract or "Nothing.", authors=names)
    store_batch(Batch("cs.CL", WEDNESDAY, (this, other)), Listing.Source.RSS, noon(WEDNESDAY), {})
    for query in queries:
        results = search(query, relax=False)
        assert [paper.arxiv_id for paper in results.papers] == ["2603.00001"], query
        if "author" not in query:
            assert "<mark" in results.marked()[0].title_html, query


def test_the_database_folds_words_as_python_does(db: None) -> None:
    texts = [title for title, _, _ in FOLDED]
    texts += ["İstanbul", "½ ² ™ ﷺ", "a$b_{c}$d $x$ $5 to $6", "ẛ̣ ǆ Ⅳ", "µm μm", "Σίσυφος"]
    texts += [
        "\\varepsilon $\\varepsilon$-greedy",
        "$\\mathrm{KL}$",
        "日本語テキスト",
        "ħ ŋ ĸ ə ʼn",
    ]
    with connection.cursor() as cursor:
        for text in texts:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT papers_words(%s)", [text])
                assert _words(cursor.fetchone()[0]) == words_of(text)
            else:
                cursor.execute("SELECT index_words(%s)", [text])
                assert cursor.fetchone()[0].split() == words_of(text)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


class TestWhatPeopleType:
    def test_papers_like_another(self) -> None:
        texts = ("Attention kernels", "Kernels for attention", "Robots")
        for number, title in enumerate(texts, 70):
            stored(number, title, f"{title} for GPUs are studied.")
        postings.make(5)
        paper = Paper.objects.get(title="Attention kernels")
        address = "similar to https://arxiv.org/abs/{}"
        for text in ("papers like {}", "like {}", address, "Paper like: {}"):
            results = search(text.format(paper.arxiv_id))
            titles = [similar.title for similar in results.papers]
            assert titles[:1] == ["Kernels for attention"], text
            assert results.like == paper
        assert search("like 9999.99999").like is None

    def test_a_bare_year_is_when_papers_came(self) -> None:
        stored(70, "Owls", "Nothing.")
        year = WEDNESDAY.year
        assert "Owls" in [paper.title for paper in search(str(year)).papers]
        assert not search(str(year - 1)).papers
        assert [paper.title for paper in search(f"owls {year}").papers] == ["Owls"]
        # A year among a paper's words is a word.
        stored(71, "Owls of 1999", "Nothing.")
        assert [paper.title for paper in search("owls 1999").papers][:1] == ["Owls of 1999"]

    def test_a_bare_surname_finds_its_papers(self) -> None:
        make_paper(72, title="Owls", authors=[{"name": "Zoe Lind-Berg", "affiliation": ""}])
        for text in ("Lind-Berg", "berg", "Zoe Lind-Berg"):
            assert [paper.title for paper in search(text).papers][:1] == ["Owls"], text


WRITTEN_BY = [
    ("Jane F. Doe", ["Jane Doe", "J. Doe", "jane f doe", "Doe, Jane", "DOE, J. F.", "J F Doe"]),
    ("Conan O’Neil", ["Conan O'Neil", "C. O’Neil", "Conan ONeil", "o'neil, conan"]),
    ("Jean-Luc Lind-Berg", ["Jean Luc Lind-Berg", "J.-L. Lind-Berg", "Jeanluc Lind Berg"]),
    ("Xiaoming Li", ["Xiao-Ming Li", "X. Li", "Li, Xiaoming", "XIAOMING LI"]),
    ("Jörg Müller", ["Joerg Mueller", "J. Mueller", "Jorg Muller", "Mueller, Jörg", "Mueller"]),
    ("Joerg Schroeder", ["Jörg Schröder", "J. Schröder", "Schröder"]),
    ("Bäuerle", ["Baeuerle", "Bauerle", "Bäuerle"]),
    ("Łukasz van der Żak", ["Lukasz van der Zak", "L. Zak", "Lukasz Zak", "van der Żak, Ł."]),
]
OTHERS = ["Karl Doe", "Mary Doe", "Jane Doering", "Conan Neil", "Karl Berg", "Mingxia Li"]


@pytest.mark.parametrize(("author", "queries"), WRITTEN_BY, ids=[name for name, _ in WRITTEN_BY])
def test_an_author_is_found_however_the_name_is_written(author: str, queries: list[str]) -> None:
    make_paper(80, title="Owls", authors=[{"name": author, "affiliation": ""}])
    for number, name in enumerate(OTHERS, 81):
        make_paper(number, title=f"Owls {number}", authors=[{"name": name, "affiliation": ""}])
    # Names of two authors are no name of either.
    make_paper(99, title="Pairs", authors=[{"name": n, "affiliation": ""} for n in OTHERS])
    for query in queries:
        for text in (f'author:"{query}"', f'owls au:"{query}"', f'au:"{query}" OR au:"No One"'):
            assert [paper.title for paper in search(text).papers] == ["Owls"], text
        excluded = [paper.title for paper in search(f'owls -author:"{query}"').papers]
        assert "Owls" not in excluded, query
        assert len(excluded) == len(OTHERS), query


def test_a_surname_with_an_apostrophe_is_found_without(papers: None) -> None:
    make_paper(80, title="Owls", authors=[{"name": "Conan O'Neil", "affiliation": ""}])
    for text in ("O'Neil", "O’Neil", "ONeil", "oneil", '"O\'Neil"', "conan"):
        assert [paper.title for paper in search(f"author:{text}").papers] == ["Owls"], text


def test_a_surname_with_ue_is_not_that_with_u(papers: None) -> None:
    """Only a name that has the letter itself is found by its two."""
    for number, name in enumerate(("Ida Bur", "Ida Xu", "Ida Michal", "Ida Müller"), 80):
        make_paper(number, title=f"By {name}", authors=[{"name": name, "affiliation": ""}])
    for text in ("Buer", "Xue", "Michael"):
        assert not search(f"author:{text}", relax=False).papers, text


def test_a_slip_in_a_surname_with_oe_is_corrected(papers: None) -> None:
    spelling._title_words.cache_clear()
    make_paper(80, title="Owls", authors=[{"name": "Ida Schroeder", "affiliation": ""}])
    results = search("author:Schroedre")
    assert (results.corrected, len(results.papers)) == ("author:schroeder", 1)
