"""The subject of a paper: places of keywords, single mentions, supporting words."""

from collections.abc import Sequence

import pytest

from tests.digests import seed_bot
from webapp.digests.scoring.rules import Candidate, Keyword, Match, Rules, Standing
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.selection import in_order, select

BACKGROUND = "Large models are slow. Many use pruning to go faster."
PROPOSAL = "In this paper, we propose a scheme for pruning that keeps every token."


def rules(*keywords: Keyword | str, **fields: object) -> Rules:
    written = tuple(Keyword(one) if isinstance(one, str) else one for one in keywords)
    return Rules(written, by_place=True, **fields)  # type: ignore[arg-type]


def listed(one: Rules, papers: Sequence[Candidate]) -> tuple[list[str], list[str]]:
    """The papers of the list and those that stand apart."""
    chosen, _ = select(one, Scorer([one]).kept(papers)[0], papers)
    names = [(papers[kept.at].id, kept.standing == 0) for kept in chosen]
    return [name for name, about in names if about], [name for name, about in names if not about]


def match(title: str, abstract: str, keyword: str = "pruning") -> Match:
    (only,) = Scorer([rules(keyword)]).matches(0, Candidate("x", title, abstract))
    return only


@pytest.mark.parametrize(
    ("title", "abstract", "place", "points"),
    [
        ("Pruning of tokens", BACKGROUND, "title", 1.5),
        ("Fast models", f"Large models are slow. {PROPOSAL}", "proposal", 1.0),
        ("Fast models", f"{BACKGROUND} Our results hold for pruning too.", "repeated", 1.0),
        ("Fast models", "Pruning, pruning", "repeated", 1.0),  # one delimiter apart
        ("Fast models", BACKGROUND, "mention", 0.5),
        ("Fast models", "Structured pruning is known.", "mention", 0.5),
        ("Fast models", "Pruning is old. Caching is presented here.", "mention", 0.5),
        ("Fast models", "We thank all. A scheme of pruning is introduced.", "proposal", 1.0),
        ("Fast models", "Nothing is proposed. Pruning is old.", "mention", 0.5),
    ],
)
def test_a_keyword_counts_by_its_weightiest_place(
    title: str, abstract: str, place: str, points: float
) -> None:
    found = match(title, abstract)
    assert (found["place"], found["points"]) == (place, points)


def test_single_mentions_fill_no_list_and_never_stand_above_a_title() -> None:
    one = rules("pruning", Keyword("slow", weight=50.0), size=3)
    papers = [
        Candidate("mention", "Fast models", BACKGROUND),  # 25.5 points
        Candidate("title", "Pruning", "We study it."),  # 1.5 points
        Candidate("none", "Cats", "We draw cats."),
    ]
    assert listed(one, papers) == (["title"], ["mention"])


def test_at_most_as_many_stand_apart_as_a_list_has_and_the_rest_is_further() -> None:
    one = rules("pruning", size=2)
    papers = [Candidate(f"m{n}", "Fast", BACKGROUND) for n in range(5)]
    papers += [Candidate(f"t{n}", "Pruning", "") for n in range(3)]
    chosen, further = select(one, Scorer([one]).kept(papers)[0], papers)
    assert [papers[kept.at].id for kept in chosen] == ["t0", "t1", "m0", "m1"]
    assert [papers[kept.at].id for kept in further] == ["t2", "m2", "m3", "m4"]


def test_below_the_minimum_a_paper_stands_apart_before_single_mentions() -> None:
    one = rules("pruning", "quantization", min_score=2.0)
    papers = [
        Candidate("both", "Pruning and quantization", ""),
        Candidate("mentions", "Models", "Pruning meets quantization."),
        Candidate("proposal", "Models", "We propose pruning of models."),
    ]
    assert listed(one, papers) == (["both"], ["proposal", "mentions"])


def test_a_supporting_word_adds_its_weight_and_brings_no_paper() -> None:
    one = rules("pruning", Keyword("+language model | LLM", 2.0, 1.0), min_score=3.0)
    papers = [
        Candidate("field", "Pruning of LLMs", ""),
        Candidate("word", "LLMs in law", "We ask a language model."),
        Candidate("elsewhere", "Pruning of trees", ""),
    ]
    assert listed(one, papers) == (["field", "elsewhere"], [])
    scorer = Scorer([one])
    kept = {papers[kept.at].id: kept.score for kept in scorer.kept(papers)[0]}
    assert kept == {"field": 4.5, "elsewhere": 1.5}
    assert [found["points"] for found in scorer.matches(0, papers[0])] == [1.5, 3.0]
    assert scorer.matches(0, papers[1]) == []


def test_an_opposing_word_takes_its_weight_and_may_leave_a_paper_out() -> None:
    one = rules("pruning", Keyword("-patient", 0.5, 2.0), min_score=1.5)
    papers = [
        Candidate("free", "Pruning", ""),
        Candidate("field", "Pruning", "For patients."),
        Candidate("title", "Pruning for patients", ""),
        Candidate("word", "Patients", "We ask them."),
    ]
    assert listed(one, papers) == (["free"], ["field"])
    found = Scorer([one]).matches(0, papers[1])
    assert [part["points"] for part in found] == [1.5, -0.5]


def test_many_profiles_at_once_get_what_each_gets_alone() -> None:
    """Terms are then searched for by tokens, not by an automaton."""
    words = ["pruning", "token*", "/slow(er)?/", "large models | huge models", "+scheme", "keeps"]
    alone = [rules(*words[n : n + 2], "faster", size=9) for n in range(4)]
    papers = [
        Candidate("a", "Pruning", BACKGROUND),
        Candidate("b", "Schemes that are slower", PROPOSAL),
        Candidate("c", "Nothing", f"{BACKGROUND} {PROPOSAL}"),
    ]
    together = Scorer([*alone, *(rules(f"filler{n}") for n in range(100))]).kept(papers)
    for number, one in enumerate(alone):
        scorer = Scorer([one])
        assert together[number] == scorer.kept(papers)[0]
        for kept in together[number]:
            found = scorer.matches(0, papers[kept.at])
            assert sum(part["points"] for part in found) == pytest.approx(kept.score)


def test_the_seed_bots_rule_knows_no_place_and_no_sign() -> None:
    keywords = ["attention", "+sparse"]
    papers = [
        Candidate("1", "Cats", "Once, attention."),
        Candidate("2", "Attention", "All of +sparse."),
        Candidate("3", "Dogs", "Only +sparse attention."),
    ]
    one = Rules(tuple(map(Keyword, keywords)), substring=True)
    order = [
        (papers[k.at].id, k.score) for k in in_order(one, Scorer([one]).kept(papers)[0], papers)
    ]
    assert order == seed_bot.rule(keywords, (), papers, 30)


def test_a_title_match_is_listed_below_the_minimum_unless_a_word_speaks_against_it() -> None:
    scorer = Scorer(
        [
            Rules(
                (Keyword("pruning"), Keyword("-medical", 0.5, 0.0)),
                by_rarity=True,
                by_place=True,
                min_score=50.0,
            )
        ]
    )
    papers = [
        Candidate("1", "Pruning", "We study trees."),
        Candidate("2", "Trees", "We propose pruning. Pruning is good."),
        Candidate("3", "Pruning", "We study medical trees."),
    ]
    standings = {papers[paper.at].id: paper.standing for paper in scorer.kept(papers)[0]}
    assert standings == {"1": Standing.ABOUT, "2": Standing.BELOW, "3": Standing.BELOW}


def test_papers_of_followed_authors_come_first_whatever_else_scores() -> None:
    rules = Rules(
        (Keyword("author:Ada Cole", 0.1, 0.0), Keyword("pruning", 9.0)),
        by_rarity=True,
        by_place=True,
        min_score=5.0,
    )
    papers = [
        Candidate("1", "Pruning of pruning", "Pruning."),
        Candidate("2", "Trees", "We study trees.", authors=("Ada Cole",)),
    ]
    listed, further = select(rules, Scorer([rules]).kept(papers)[0], papers)
    assert [papers[paper.at].id for paper in listed] == ["2", "1"]
    assert [paper.standing for paper in listed] == [Standing.ABOUT, Standing.ABOUT]
    assert further == []
