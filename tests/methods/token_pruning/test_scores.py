"""BLEU against sacrebleu's value, and by hand.

pip install sacrebleu
sacrebleu.BLEU(lowercase=True, smooth_method="none").corpus_score(GIVEN, references).score
"""

import math

import numpy as np
import pytest

from methods.token_pruning.scores import bleu, bleu_counts

GIVEN = [
    "a dog runs on the green grass",
    "two people sit at a wooden table with food",
    "a red bus",
    "the cat sleeps on a chair near the window today",
]
ANSWERS = [
    ["a dog runs on green grass", "a brown dog is running on the grass", "dog running outside"],
    ["two people sit at a table with plates of food",
     "a man and a woman are eating at a wooden table"],
    ["a red bus drives down the street", "a big red bus is on the road", "the red bus stops"],
    ["a cat sleeps on a chair", "the cat is asleep on a chair near the window"],
]  # fmt: skip
SACREBLEU = 71.49251692491357


def counts(given, answers):
    return np.stack([bleu_counts(*pair) for pair in zip(given, answers, strict=True)])


def test_bleu_is_sacrebleu_s():
    assert bleu(counts(GIVEN, ANSWERS).sum(0)) == pytest.approx(SACREBLEU, abs=1e-9)


def test_bleu_by_hand():
    """5 words of which 4 are right, 4 pairs and 2, 3 triples and 1, 2 quadruples and 0."""
    (one,) = counts(["a b c x d"], [["a b c d"]])
    assert one.tolist() == [4, 2, 1, 0, 5, 4, 3, 2, 5, 4]
    assert bleu(one) == 0
    (short,) = counts(["a b c d"], [["a b c d e", "a b c d e f g h"]])
    assert bleu(short) == pytest.approx(100 * math.exp(1 - 5 / 4))  # the nearer length
    assert bleu(np.stack([one, short])).shape == (2,)
    (often,) = counts(["a a a"], [["a b", "b a a"]])  # as often as one answer has it
    assert often.tolist() == [2, 1, 0, 0, 3, 2, 1, 0, 3, 3]
    assert bleu(counts(["A b, c d."], [["a b c d"]])[0]) == pytest.approx(100)  # case, marks
    assert bleu(counts([""], [["a b c d"]])[0]) == 0
