"""A model multiplied by all papers at once says what sums of its terms say, one by one."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from webapp.digests.scoring.rules import Candidate, Keyword, Rules
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.selection import NEAREST, select
from webapp.learning import preferences as learned
from webapp.learning.linear import Linear
from webapp.learning.numbered import Vectors
from webapp.learning.preferences import Learned, LearnedPaper, packed_examples
from webapp.learning.tfidf import vector, vocabulary

TERMS = sorted(term for term in vocabulary() if " " not in term)[::40]


def text(chance: random.Random, words: int = 12) -> tuple[str, str]:
    return " ".join(chance.choices(TERMS, k=3)), " ".join(chance.choices(TERMS, k=words))


def model(seed: int = 1, refused: int = 0) -> Learned:
    chance = random.Random(seed)
    examples = [
        LearnedPaper(f"Saved {at}", f"2603.{at:05d}", at >= refused, vector(*text(chance)))
        for at in range(8)
    ]
    return Learned(
        Linear(-0.5, {term: chance.gauss(0, 1) for term in chance.sample(TERMS, 100)}),
        tuple(sorted(chance.gauss(-0.5, 0.3) for _ in range(50))),
        0.5,
        packed_examples(examples),
        8 - refused,
        f"model {seed}",
    )


def test_log_odds_are_the_sum_over_a_papers_terms() -> None:
    chance, known = random.Random(3), model()
    texts = [("", ""), *(text(chance, at) for at in range(20)), ("", "of the")]
    together = known.log_odds(Vectors.of(texts)).tolist()
    for paper, odds in zip(texts, together, strict=True):
        terms = vector(*paper)
        single = sum(value * known.model.weights.get(term, 0.0) for term, value in terms.items())
        assert odds == pytest.approx(-0.5 + single, abs=1e-12)
    assert len({round(odds, 6) for odds in together}) > 15
    assert known.log_odds(Vectors.of([])).tolist() == []


def test_a_term_of_another_vocabulary_says_nothing() -> None:
    known = model()
    strange = Linear(known.model.intercept, {**known.model.weights, "no such term": 9.0})
    papers = Vectors.of([text(random.Random(4))])
    again = replace(known, model=strange).log_odds(papers).tolist()
    assert again == known.log_odds(papers).tolist()


@pytest.mark.parametrize("refused", [0, 3, 8])
def test_the_nearest_is_the_first_of_those_with_the_largest_cosine(refused: int) -> None:
    """Of its side alone; and what is stored passes through JSON."""
    chance = random.Random(5)
    papers = [
        LearnedPaper(f"Paper {at}", f"{at}", at >= refused, vector(*text(chance, 6)))
        for at in range(8)
    ]
    twin = papers[-1]._replace(title="Twin")  # after the one that it equals
    known = replace(model(), examples=json.loads(json.dumps(packed_examples([*papers, twin]))))
    for _ in range(30):
        seen = text(chance)
        terms = vector(*seen)
        for side, liked in ((known.saved, True), (known.refused, False)):
            cosines = {
                paper.title: sum(
                    value * terms.get(term, 0.0) for term, value in paper.terms.items()
                )
                for paper in papers
                if paper.liked is liked
            }
            best = max(cosines, key=lambda title: cosines[title], default="")
            cosine, (title, _) = side.nearest(*seen)
            assert cosine == pytest.approx(cosines.get(best, 0.0), abs=1e-3)
            if cosines and cosine > 0:
                assert title == best
    assert known.refuses is (refused > 0)


def test_examples_with_words_that_no_vocabulary_has_any_more_are_read() -> None:
    papers = [LearnedPaper("A", "1", True, {"gone for good": 0.8, TERMS[0]: 0.6})]
    packed = packed_examples(papers)
    for stored in (packed, {**packed, "numbered_by": "another", "numbers": "AAAAAA=="}):
        cosine, (title, identifier) = replace(model(), examples=stored).saved.nearest(TERMS[0], "")
        assert (round(cosine, 6), title, identifier) == (0.6, "A", "1")


@pytest.mark.parametrize("keywords", [(), (Keyword(TERMS[0]), Keyword(TERMS[5]))])
@pytest.mark.parametrize("refused", [0, 4])
def test_a_digest_is_the_same_of_the_closest_as_of_all(
    keywords: tuple[Keyword, ...], refused: int
) -> None:
    """Whichever papers were shown before, and with ties: every paper stands there twice."""
    chance, size, spare = random.Random(7), 3, 6
    texts = [text(chance) for _ in range(120)] * 2
    papers = [
        Candidate(f"{at:03d}", *paper, categories=("cs.AI" if at % 9 else "cs.CL",))
        for at, paper in enumerate(texts)
    ]
    rules = Rules(
        keywords, size=size, learned=model(8, refused), categories=("cs.AI",), exclude=(TERMS[9],)
    )
    other = Rules((Keyword(TERMS[2]),), exclude=(TERMS[0],))
    whole, few = (Scorer([rules, other]).kept(papers, number)[0] for number in (None, spare))
    assert len(few) < len(whole)
    assert {paper.at for paper in few} <= {paper.at for paper in whole}
    assert len(few) >= 2 * size + NEAREST + spare or len(few) == len(whole)
    closest = sorted(whole, key=lambda paper: -paper.log_odds)
    for before in [set(), {paper.at for paper in closest[:spare]}, {closest[0].at, closest[7].at}]:
        of_whole, of_few = (
            select(rules, [paper for paper in kept if paper.at not in before], papers)
            for kept in (whole, few)
        )
        assert of_whole == of_few
        assert of_whole[0]
    assert all(papers[paper.at].categories == ("cs.AI",) for paper in whole)
    assert not any(TERMS[9] in texts[paper.at][1].split() for paper in whole)


def test_a_score_is_what_its_reasons_add_up_to() -> None:
    chance = random.Random(9)
    papers = [Candidate(str(at), *text(chance)) for at in range(40)]
    rules = Rules((Keyword(TERMS[0]), Keyword(TERMS[1])), learned=model(8, 4))
    scorer = Scorer([rules])
    kept = scorer.kept(papers)[0]
    assert len(kept) == 40
    for paper in kept:
        for odds in (paper.log_odds, None):
            found = scorer.matches(0, papers[paper.at], odds)
            assert sum(match["points"] for match in found) == pytest.approx(paper.score)
    pushed = [paper for paper in kept if paper.by_rules < 0]
    names = {match["keyword"] for paper in pushed for match in scorer.matches(0, papers[paper.at])}
    assert learned.UNLIKE in names
