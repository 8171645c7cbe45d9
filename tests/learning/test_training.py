"""Terms that saved papers share count more than those that each has alone."""

from __future__ import annotations

import pytest

from tests.factories import make_paper
from webapp.learning.numbered import Vectors
from webapp.learning.preferences import CLOSE, Learned
from webapp.learning.training import Signals, train

pytestmark = pytest.mark.django_db
SUBJECTS = ("robots", "protein structures", "climate", "speech", "medical images", "graphs")


@pytest.fixture
def learned() -> Learned:
    """Learned from five papers on unlearning, each in another field."""
    saved = [
        make_paper(number, title=f"Unlearning for {subject}",
                   abstract=f"Models of {subject} forget. We study machine unlearning.")
        for number, subject in enumerate(SUBJECTS[:5], 1)
    ]  # fmt: skip
    for number in range(60):
        subject = SUBJECTS[number % 6]
        make_paper(100 + number, title=f"Models of {subject}",
                   abstract=f"We train networks for {subject}, study {number}.")  # fmt: skip
    made = train(Signals({paper.pk: 1.0 for paper in saved}, ()))
    assert made
    return made


def closeness(learned: Learned, title: str, abstract: str) -> float:
    (odds,) = learned.log_odds(Vectors.of([(title, abstract)])).tolist()
    return learned.closeness(odds)


def test_a_paper_with_the_shared_term_is_closer_than_one_of_the_same_field(
    learned: Learned,
) -> None:
    shared = closeness(learned, "Unlearning in graphs", "A network forgets. Unlearning is studied.")
    field = closeness(
        learned, "Models of protein structures", "Protein structures and robots are studied."
    )
    assert shared > 2 * CLOSE > CLOSE > field


def test_only_terms_of_several_papers_count_extra(learned: Learned) -> None:
    weights = learned.model.weights
    assert weights["unlearning"] > 1 > max(weights["speech"], weights["protein"], weights["robots"])


def test_one_saved_paper_shares_nothing() -> None:
    saved = make_paper(1, title="Unlearning for robots", abstract="Robots forget.")
    for number in range(20):
        make_paper(100 + number, title=f"Models {number}", abstract="Networks are trained.")
    made = train(Signals({saved.pk: 1.0}, ()))
    assert made
    assert max(made.model.weights.values()) < 1
