"""Scores of answers and captions: VQA's accuracy, and BLEU-4.

BLEU cuts texts into runs of letters and digits, in lower case; the tests compare it with sacrebleu.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Grams = Counter[tuple[str, ...]]
LONGEST = 4  # words of an n-gram


def _grams(text: str) -> list[Grams]:
    """The n-grams of a text with their counts, n = 1 to 4."""
    words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text.lower())
    return [
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        for n in range(1, LONGEST + 1)
    ]


def bleu_counts(candidate: str, answers: Sequence[str]) -> NDArray[np.int64]:
    """The counts that BLEU adds up over captions, (10,).

    Right n-grams and all n-grams given, n = 1 to 4, words given, and words of the answer whose
    length is nearest, the shorter of two.
    """
    ours, references = _grams(candidate), [_grams(answer) for answer in answers]
    right = [
        sum(
            min(count, max(other[n][gram] for other in references))
            for gram, count in ours[n].items()
        )
        for n in range(LONGEST)
    ]
    lengths = [other[0].total() for other in references]
    length = ours[0].total()
    nearest = min(lengths, key=lambda other: (abs(other - length), other))
    return np.array([*right, *(grams.total() for grams in ours), length, nearest])


def bleu(totals: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""BLEU-4 in per cent of summed `bleu_counts` (..., 10): (...) (Papineni et al., ACL 2002).

    Equation: $100 \, e^{\min(0, 1 - r / c)} \prod_{n = 1}^4 p_n^{1/4}$

    p_n is the share of n-grams that are right, c words were given where r were wanted. Without
    smoothing: 0 where no 4-gram is right.
    """
    right, every = totals[..., :LONGEST], totals[..., LONGEST : 2 * LONGEST]
    candidate, reference = np.maximum(totals[..., -2], 1), totals[..., -1]
    with np.errstate(divide="ignore"):
        precision = np.log(right / np.maximum(every, 1)).mean(-1)
    score: NDArray[np.float64] = 100 * np.exp(np.minimum(0, 1 - reference / candidate) + precision)
    return score


def vqa_accuracy(candidate: str, answers: Sequence[str]) -> float:
    r"""VQA's accuracy: people who gave this answer, three are enough; mean over who is left out.

    Equation: $a = \operatorname{mean}_i \min \left( 1, \frac{1}{3}
        \sum_{j \ne i} [\, a_j = s \,] \right)$, and $[\, a_1 = s \,]$ with one answer alone
    """
    ours, references = _plain(candidate), [_plain(answer) for answer in answers]
    if len(references) == 1:
        return float(ours == references[0])
    same = [answer == ours for answer in references]
    return sum(min(1.0, (sum(same) - mine) / 3) for mine in same) / len(same)


_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = {"a", "an", "the"}
_NUMBERS = "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905
_DIGITS = {"none": "0"} | {word: str(number) for number, word in enumerate(_NUMBERS)}
_CONTRACTIONS = """
    ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd
    how'll how's i'd i'm i've isn't it'd it'll let's ma'am might've mightn't must've mustn't needn't
    oughtn't shan't she'd she's should've shouldn't somebody's someone's something's that'd that's
    there'd there're there's they'd they'll they're they've wasn't we'd we've weren't
    what'll what're what's what've when's where'd where's where've who'd who'll who's who've why'll
    why're why's
    won't would've wouldn't y'all you'd you'll you're you've
"""
_WHOLE = {word.replace("'", ""): word for word in _CONTRACTIONS.split()}


def _plain(text: str) -> str:
    """An answer as VQA's evaluation compares it (Antol et al., arXiv:1505.00468; its public code).

    Lower case; punctuation goes, or is a blank inside a word; numbers up to ten in figures; no
    articles; contractions with their apostrophe.
    """
    text = " ".join(text.lower().split())
    has_thousands = re.search(r"\d,\d", text) is not None
    for mark in _PUNCTUATION:
        apart = f"{mark} " in text or f" {mark}" in text or has_thousands
        text = text.replace(mark, "" if apart else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = (_DIGITS.get(word, word) for word in text.split())
    return " ".join(_WHOLE.get(word, word) for word in words if word not in _ARTICLES)
