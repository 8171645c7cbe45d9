"""Claims that a definition settles are counted without torch; every claim is answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from methods import registry
from methods.commands.describe import as_dict
from methods.sparse_attention.counts import exponent
from methods.spec import Comparable, Method
from webapp.catalog.verdicts import Word, judge


@pytest.mark.parametrize("method", registry.all_methods(), ids=lambda method: method.slug)
def test_at_most_two_claims_are_not_testable_each_with_its_need(method: Method) -> None:
    judged = {claim.id: judge(claim, None) for claim in method.claims}
    words = Counter(verdict.word for verdict in judged.values())
    assert words[Word.UNTESTABLE] <= 2
    for claim in method.claims:
        if judged[claim.id].word is Word.UNTESTABLE:
            assert "needs" in claim.reason
        if judged[claim.id].word is None:
            assert claim.answer, "it waits for a measurement that is named"
        if claim.comparable is Comparable.RATIO_ONLY:
            assert claim.answer
            assert claim.answer.quantity == "ratio"


def test_what_was_counted_by_hand_is_counted() -> None:
    """By the source's own rule, dense attention being n x n pairs, as its sparsity is counted."""
    count = {
        (method.slug, claim.id): claim.counted()
        for method in registry.all_methods()
        for claim in method.claims
        if claim.counted
    }
    sparse = [count["sparse_attention", f"operations_{n}"].low for n in (512, 1024, 2048, 4096)]
    assert sparse == pytest.approx([3.741, 4.737, 6.149, 10.544], abs=0.005)
    assert count["sparse_attention", "sparsity"].low == pytest.approx(0.646, abs=0.001)
    assert count["token_pruning", "tokens"].low == pytest.approx(54.6, abs=0.05)
    assert count["token_pruning", "flops"].low == pytest.approx(54.9, abs=0.05)
    assert 1.9 < count["sparse_attention", "complexity"].low < 2
    assert "18.5 times at 16,384" in count["sparse_attention", "memory"].working


def test_a_growth_is_the_fitted_exponent() -> None:
    lengths = [2**k for k in range(8, 16)]
    assert exponent(lengths, [3 * n**1.5 for n in lengths]) == pytest.approx(1.5)


@pytest.mark.parametrize("method", registry.all_methods(), ids=lambda method: method.slug)
def test_a_method_is_described_with_its_counts(method: Method) -> None:
    claims = json.loads(json.dumps(as_dict(method)))["claims"]
    for claim, plain in zip(method.claims, claims, strict=True):
        assert (plain["counted"] is None) == (claim.counted is None)
        if claim.counted:
            assert plain["counted"]["working"] == claim.counted().working


def test_counting_loads_no_torch() -> None:
    program = (
        "import sys; from methods import registry\n"
        "for m in registry.all_methods():\n"
        "    for c in m.claims: c.counted and c.counted()\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("method", registry.all_methods(), ids=lambda method: method.slug)
def test_a_finding_holds_no_number_of_ours(method: Method) -> None:
    """A number that was measured belongs to a result file, with interval and run; the source's
    own may be repeated."""
    said = " ".join(f"{one.text} {one.quote} {one.setting}" for one in method.claims)
    known = set(re.findall(r"\d[\d.,]*\d|\d", said))
    for claim in method.claims:
        words = re.sub(r"\bv\d\b", "", claim.finding)
        assert set(re.findall(r"\d[\d.,]*\d|\d", words)) <= known, claim.id
