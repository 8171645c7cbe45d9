import random
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.clock import ends_within
from tests.digests import seed_bot
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.scoring.matchers import AutomatonMatcher, term_matchers
from webapp.digests.scoring.rules import Candidate, Keyword, Match, Rules, total
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.selection import in_order
from webapp.digests.scoring.terms import Kind, fold, normalise, term
from webapp.digests.scoring.texts import FoldedText
from webapp.papers.models import Paper


def rules(*keywords: str, **fields: object) -> Rules:
    return Rules(tuple(map(Keyword, keywords)), **fields)  # type: ignore[arg-type]


def candidate(title: str, abstract: str = "", **fields: object) -> Candidate:
    return Candidate("x", title, abstract, **fields)  # type: ignore[arg-type]


class Scored(NamedTuple):
    score: float
    kept: bool
    matches: list[Match]


def scored(scorer: Scorer, paper: Candidate, rule: int = 0) -> Scored:
    """The sum of a paper's reasons, by which it is kept."""
    matches, kept = scorer.matches(rule, paper), scorer.kept([paper])[rule]
    assert [one.score for one in kept] == [total(matches)] * len(kept)
    return Scored(total(matches), bool(kept), matches)


def test_a_score_is_the_sum_of_its_parts() -> None:
    one = Rules((Keyword("sparse", 2.0, 0.25), Keyword("attention"), Keyword("RL")))
    score = scored(Scorer([one]), candidate("Sparse attention", "Sparse world."))
    assert score.score == 3.75
    assert score.matches == [
        {"keyword": "sparse", "where": ["title", "abstract"], "points": 2.25},
        {"keyword": "attention", "where": ["title"], "points": 1.5},
    ]
    assert score.kept


def test_decimal_weights_add_up_as_on_paper() -> None:
    one = Rules((Keyword("a1", 0.1, 0), Keyword("b1", 0.2, 0)))
    assert scored(Scorer([one]), candidate("", "a1 b1")).score == 0.3


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, True),
        ({"min_score": 1.5}, True),
        ({"min_score": 1.500001}, False),
        ({"exclude": ("survey",)}, False),
        ({"exclude": ("view",)}, True),
        ({"categories": ("cs.CL",)}, True),
        ({"categories": ("cs.CV",)}, False),
        ({"announce_types": ("replace",)}, False),
    ],
)
def test_rules_decide_what_is_kept(fields: dict[str, object], kept: bool) -> None:
    paper = candidate("Attention", "A survey; reviewed.", categories=("cs.AI", "cs.CL"))
    score = scored(Scorer([rules("attention", **fields)]), paper)
    assert (score.score, score.kept) == (1.5, kept)


def test_without_a_keyword_a_paper_is_out_whatever_the_least_score() -> None:
    score = scored(Scorer([rules("attention")]), candidate("Kernels"))
    assert (score.score, score.kept, score.matches) == (0.0, False, [])


def test_no_phrase_reaches_from_title_to_abstract() -> None:
    assert not scored(Scorer([rules("sparse attention")]), candidate("Sparse", "attention")).kept


def test_reading_order_is_score_then_submission_then_id() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    papers = [
        Candidate("4", "x", "", submitted_at=None),
        Candidate("3", "x", "", submitted_at=at.replace(hour=5)),
        Candidate("2", "x", "", submitted_at=at.replace(hour=5)),
        Candidate("1", "x", "x", submitted_at=at.replace(hour=9)),
        Candidate("0", "", "x", submitted_at=at),
    ]
    order = in_order(rules("x"), Scorer([rules("x")]).kept(papers)[0], papers)
    assert [papers[one.at].id for one in order] == ["2", "3", "1", "4", "0"]


words = st.text("aAbBrRlL iİßΣσ-.中", min_size=1, max_size=4).filter(str.strip)
texts = st.text("aAbBrRlL iİßΣσ-.中", max_size=30)


@given(
    st.lists(words, min_size=1, max_size=80, unique_by=lambda word: normalise(word).lower()),
    st.lists(words, max_size=3),
    st.lists(st.tuples(texts, texts, st.sampled_from(["new", "cross"])), max_size=12),
    st.integers(1, 8),
)
def test_substring_is_the_seed_bots_rule(
    keywords: list[str], excluded: list[str], drafts: list[tuple[str, str, str]], size: int
) -> None:
    papers = [
        Candidate(str(number), normalise(title), normalise(abstract), announce_type=type_)
        for number, (title, abstract, type_) in enumerate(drafts)
    ]
    one = rules(
        *keywords, exclude=tuple(excluded), substring=True, announce_types=("new",), size=size
    )
    scorer = Scorer([one])
    order = in_order(one, scorer.kept(papers)[0], papers)[:size]
    ours = [(papers[kept.at].id, kept.score) for kept in order]
    assert ours == seed_bot.rule([normalise(k) for k in keywords], excluded, papers, size)
    for paper in papers:  # the reasons add up, whatever the paper's type
        score = scored(scorer, paper)
        assert score.score == sum(match["points"] for match in score.matches)


# Two ways of finding the same.

vocabulary = [
    "ab",
    "b",
    "c",
    "abs",
    "ab-c",
    "b c",
    "ab c b",
    "a-b-c",
    "abc",
    "c++",
    "中",
    "中c",
    "é",
    "ab*",
    "bc* b",
    "b's",
    "ies",
    "y",
    "by",
]
pieces = st.lists(
    st.sampled_from(
        [
            "ab",
            "AB",
            "b",
            "c",
            "C++",
            "a",
            "abc",
            "abcs",
            "by",
            "bies",
            "bs",
            "中",
            "é",
            "É",
            "-",
            " ",
            "\n",
            ".",
            ",",
            "_",
            "\u2011",
            "'",
            "$",
        ]
    ),
    max_size=25,
).map("".join)


@example(["c", "b c"], "C++ b", "c")
@given(st.lists(st.sampled_from(vocabulary), min_size=1, unique=True), pieces, pieces)
@settings(max_examples=130)
def test_tokens_and_automaton_find_the_same(keywords: list[str], title: str, abstract: str) -> None:
    terms = list(enumerate(map(term, keywords)))
    found = [
        one.match(FoldedText(title), FoldedText(abstract))
        for one in term_matchers(list(map(term, keywords)), single=False)
    ]
    by_token = [set().union(*places) for places in zip(*found, strict=True)]
    automaton = AutomatonMatcher(Kind.WORDS, terms)
    assert by_token == [
        set(found) for found in automaton.match(FoldedText(title), FoldedText(abstract))
    ]
    each = [{number for number, one in terms if one.spans(text)} for text in (title, abstract)]
    assert by_token == [each[0], each[0] | each[1]]


@given(st.lists(st.sampled_from(vocabulary), min_size=1, max_size=6, unique=True), pieces, pieces)
def test_many_profiles_score_as_each_alone(keywords: list[str], title: str, abstract: str) -> None:
    paper = candidate(title, abstract)
    many = [
        *(rules(*keywords, by_place=place) for place in (False, True)),
        *(rules(*keywords[::-1], "/b.c/"), rules(*keywords, substring=True)),
    ]
    together = [scored(Scorer(many), paper, rule) for rule in range(len(many))]
    assert together == [scored(Scorer([one]), paper) for one in many]
    for score in together:
        exact = sum((Fraction(str(match["points"])) for match in score.matches), Fraction())
        assert Fraction(str(score.score)) == exact


@given(st.lists(st.sampled_from(vocabulary), min_size=1, max_size=6, unique=True), pieces, pieces)
def test_a_match_names_the_fields_that_have_its_keyword(
    keywords: list[str], title: str, abstract: str
) -> None:
    many = Scorer([rules(*keywords), rules("b", "/c/")])
    expected = {
        keyword: [
            name
            for name, text in (("title", title), ("abstract", abstract))
            if term(keyword) in FoldedText(text)
        ]
        for keyword in keywords
    }
    found = {one["keyword"]: one["where"] for one in many.matches(0, candidate(title, abstract))}
    assert found == {keyword: where for keyword, where in expected.items() if where}


def test_an_automaton_out_of_memory_still_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.digests.scoring.matchers.SET_MEMORY", 20_000)
    automaton = AutomatonMatcher(
        Kind.WORDS, list(enumerate(map(term, ["sparse", "attention", "zebra"])))
    )
    in_title, anywhere = automaton.match(FoldedText("Sparse attention"), FoldedText(""))
    assert set(in_title) == set(anywhere) == {0, 1}


def test_an_expression_that_needs_many_states_is_harmless() -> None:
    bad = tuple(f"/(a|b)*{letter}(a|b){{60}}c/" for letter in "ab")
    rng = random.Random(1)
    papers = [candidate("".join(rng.choices("ab", k=1500)), "attention") for _ in range(30)]
    scorer = Scorer([rules(*bad, "attention")])
    assert len(scorer.kept(papers)[0]) == 30
    assert ends_within(5, scorer.kept, papers)


def test_many_substrings_are_found_as_few() -> None:
    many = [term(f"q{number}", substring=True) for number in range(80)]
    found = [
        one.match(FoldedText("xq7x"), FoldedText("Q79")) for one in term_matchers(many, single=True)
    ]
    assert [set(title) for title, _ in found] == [{7}, set()]
    assert [set(everywhere) for _, everywhere in found] == [{7}, {79}]


@pytest.mark.parametrize("substring", [False, True])
def test_ascii_is_searched_as_if_it_were_folded(substring: bool) -> None:
    """Without regard to case, where a long s and a Kelvin sign are an s and a k to RE2."""
    terms = [term(word, substring=substring) for word in ("ſparſe", "\u212aernel", "naïve", "GPU")]
    automaton = AutomatonMatcher(terms[0].kind, list(enumerate(terms)))
    for text in ("SPARSE", "a Kernel", "naive", "A GPU"):
        folded = fold(text, terms[0].kind)
        expected = {number for number, one in enumerate(terms) if one.pattern.search(folded)}
        assert set(automaton.match(FoldedText(""), FoldedText(text))[1]) == expected
        assert set(automaton.match(FoldedText(text), FoldedText(""))[0]) == expected


def test_folding_is_the_same_for_words_and_texts() -> None:
    assert fold("Straße") == fold("STRASSE")


def by_rarity(*keywords: Keyword) -> Scorer:
    return Scorer([Rules(keywords, by_rarity=True)])


def test_a_rare_keyword_earns_more_and_its_points_add_up() -> None:
    scorer = by_rarity(
        Keyword("speculative decoding", frequency=4.4), Keyword("attention", frequency=200.0)
    )
    score = scored(scorer, candidate("Speculative-decoding", "Attention to speculative decoding."))
    # ln(1000 / 4.4) = 5.43, half of it for the title; ln(1000 / 200) = 1.61
    assert score.matches == [
        {
            "keyword": "speculative decoding",
            "where": ["title", "abstract"],
            "points": 8.1,
            "text": "Speculative-decoding",
            "rarity": "rare",
        },
        {"keyword": "attention", "where": ["abstract"], "points": 1.6, "rarity": "common"},
    ]
    assert score.score == 9.7


def test_a_keyword_in_every_paper_still_earns_something_and_one_in_none_is_bounded() -> None:
    scorer = by_rarity(Keyword("a1", frequency=1000.0), Keyword("b1", frequency=0.0))
    assert [m["points"] for m in scored(scorer, candidate("", "a1 b1")).matches] == [0.1, 7.6]


def marked(text: str, matches: list[dict[str, Any]]) -> list[str]:
    """Return what is marked in an abstract."""
    digest = Digest(profile=Profile())
    entry = DigestEntry(paper=Paper(abstract=text), digest=digest, matches=matches)
    return re.findall(r"<mark[^>]*>(.*?)</mark>", entry.abstract_html)


def test_an_author_is_followed_by_full_name_or_initial() -> None:
    scorer = by_rarity(Keyword("author:José Doe", 5), Keyword("Author: M. Ray", 2))
    paper = candidate("Nothing", authors=("Jose Doe", "Mia Ray"))
    score = scored(scorer, paper)
    assert score.matches == [
        {"keyword": "author:José Doe", "where": ["authors"], "points": 5.0},
        {"keyword": "Author: M. Ray", "where": ["authors"], "points": 2.0},
    ]
    assert (score.score, score.kept) == (7.0, True)
    assert marked("José Doe", score.matches) == []
    assert scored(scorer, candidate("José Doe", authors=("J. Doe",))).score == 0


def test_a_surname_alone_follows_all_who_have_it() -> None:
    scorer = by_rarity(Keyword("author:quill", 5))
    names = ("Ada Quill", "A. B. Quill", "Quill", "Quill Ray", "Ada Quilling", " ")
    papers = [candidate("Nothing", authors=(name,)) for name in names]
    assert [scored(scorer, one).score for one in papers] == [5, 5, 5, 0, 0, 0]


def test_an_excluded_author_leaves_a_paper_out() -> None:
    scorer = Scorer([rules("owls", exclude=("author:José Doe",)), rules("owls")])
    papers = [candidate("Owls", authors=(name,)) for name in ("Jose Doe", "J. Doe", "Mia Ray")]
    assert [[one.at for one in kept] for kept in scorer.kept(papers)] == [[1, 2], [0, 1, 2]]


def test_synonyms_count_once_and_are_marked_wherever_they_stand() -> None:
    scorer = Scorer([rules("mixture of experts | MoE")])
    text = "MoEs: a mixture-of-experts study of MoE"
    score = scored(scorer, candidate("", text))
    assert score.score == 1.0
    assert marked(text, score.matches) == ["MoEs", "mixture-of-experts", "MoE"]


@pytest.mark.parametrize(
    ("keyword", "title"),
    [
        (keyword, title)
        for same in (["GPT4o", "GPT-4o"], ["email", "e-mail"], ["l1", "ℓ1", "L1", "$\\ell_1$"])
        for keyword in same
        for title in same
    ],
)
def test_a_word_is_the_same_however_it_is_spelt(keyword: str, title: str) -> None:
    assert scored(Scorer([rules(keyword)]), candidate(f"On {title} of owls")).kept


@pytest.mark.parametrize("written", ["pretraining", "pre-training", "pre training", "Pretraining"])
def test_a_prefix_is_found_with_and_without_its_hyphen(written: str) -> None:
    for keyword in ("pretraining", "pre-training", "LLM pretraining | pretraining"):
        for single in ([rules(keyword)], [rules(keyword), rules("other")]):
            assert scored(Scorer(single), candidate(f"On {written}.")).score == 1.5


@pytest.mark.parametrize(
    ("keyword", "title", "marked"),
    [
        ("F1", "The $F_1$ score", "F_1"),
        ("F1 score", "The $F_1$ score", "F_1$ score"),
        ("$F_1$", "The F1 score", "F1"),
        ("CO2", "Less CO$_2$ in air", "CO$_2"),
        ("CO$_2$", "Less CO2 in air", "CO2"),
        ("β-VAE", r"A $\beta$-VAE of it", r"beta$-VAE"),
        ("β-VAE", "A β-VAE of it", "β-VAE"),
        (r"$\beta$-VAE", "A β-VAE of it", "β-VAE"),
        ("k-means", "Of $k$-means", "k$-means"),
        ("naive bayes", "The naïve Bayes", "naïve Bayes"),
        ("naïve bayes", "The naive Bayes", "naive Bayes"),
        ("Erdos", "An Erdős graph", "Erdős"),
        ("Lukasiewicz logic", "The Łukasiewicz logic", "Łukasiewicz logic"),
        ("gross", "Groß numbers", "Groß"),
        ("fine", "The ﬁne print", "ﬁne"),
        ("注意力", "稀疏注意力机制", "注意力"),
        ("학습", "한국어 학습을", "학습"),
    ],
)
def test_a_keyword_matches_however_a_word_is_spelled(keyword: str, title: str, marked: str) -> None:
    for words in (rules(keyword), rules(keyword, "quant*", "a b c")):
        assert scored(Scorer([words]), candidate(title)).score == 1.5
        assert scored(Scorer([words]), candidate("$x$", f"é {title}")).score == 1.0
    (span,) = term(keyword).spans(normalise(title))
    assert normalise(title)[slice(*span)] == marked


@pytest.mark.parametrize(
    ("keyword", "name"),
    [
        ("author:Lukasz Zak", "Łukasz Żak"),
        ("author:Żak", "Łukasz Żak"),
        ("author:L. Żak", "Łukasz Żak"),
        ("author:Beethoven", "Ludwig van Beethoven"),
        ("author:van Beethoven", "Ludwig van Beethoven"),
        ("author:Cole", "Ada Cole III"),
        ("author:Ada Cole", "Ada Cole, Jr."),
        ("author:Ada Cole III", "Ada Cole III"),
        ("author:the atlas collaboration", "The ATLAS Collaboration"),
        ("author:Orsted", "Søren Ørsted"),
        ("author:Pat O'Neil", "Pat O’Neil"),
        ("author:Pat O’Neil", "Pat O'Neil"),
        ("author:O'Neil", "Pat O’Neil"),
        ("author:Jean-Luc Fort", "Jean Luc Fort"),
        ("author:Jean Luc Fort", "Jean-Luc Fort"),
        ("author:Xiao-Ming Li", "Xiaoming Li"),
        ("author:J.-L. Fort", "Jean-Luc Fort"),
        ("author:Jane Doe", "Jane F. Doe"),
        ("author:Jane F. Doe", "Jane Doe"),
        ("author:Jane F. Doe", "Jane Frances Doe"),
        ("author:Jane Frances Doe", "Jane F Doe"),
        ("author:J. Doe", "Jane Mary Doe"),
        ("author:Mueller", "Jörg Müller"),
        ("author:Müller", "Joerg Mueller"),
        ("author:Joerg Mueller", "Jörg Müller"),
        ("author:J. Mueller", "Jörg Müller"),
        ("author:Soeren Oersted", "Søren Ørsted"),
        ("author:Aakesson", "Lars Åkesson"),
        ("author:Buehl", "Ida Bu\u0308hl"),
        ("author:Weiß", "Tom Weiss"),
    ],
)
def test_an_author_is_found_by_any_part_that_names_them(keyword: str, name: str) -> None:
    assert scored(Scorer([rules(keyword)]), candidate("T", authors=(name,))).kept
    assert not scored(Scorer([rules(keyword)]), candidate("T", authors=("Bo Ohm",))).kept


@pytest.mark.parametrize(
    ("keyword", "name"),
    [
        ("author:Jane F. Doe", "Jane G. Doe"),
        ("author:Jane Doe", "Jane Mary Doe"),
        ("author:Jean Fort", "Jean-Luc Fort"),
        ("author:Jane Doe", "J. Doe"),  # may be Joan
        ("author:Neil", "Pat O'Neil"),
        ("author:Ada Cole", "Ada Coleman"),
        ("author:Mueller", "Ida Muller"),  # Muller is Müller without its dots, but no Mueller
        ("author:Muller", "Ida Mueller"),
        ("author:Bauer", "Ida Bur"),
        ("author:Michael", "Ida Michal"),
        ("author:Xue", "Ida Xu"),
        ("author:Baeuer", "Ida Bauer"),
        ("author:Doe", "Ida Do"),
    ],
)
def test_another_author_is_not_taken_for_them(keyword: str, name: str) -> None:
    assert not scored(Scorer([rules(keyword)]), candidate("T", authors=(name,))).kept


def test_two_feeds_follow_one_name_with_and_without_its_dots() -> None:
    scorer = Scorer([rules("author:Muller"), rules("author:Müller")])
    names = ("Ida Muller", "Ida Müller", "Ida Mueller")
    candidates = [candidate(f"T{n}", authors=(name,)) for n, name in enumerate(names)]
    kept = [[paper.at for paper in papers] for papers in scorer.kept(candidates)]
    assert kept == [[0, 1], [0, 1, 2]]
