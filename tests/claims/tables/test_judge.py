"""Claims of a model held against the cells of a paper's tables, kind by kind."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import pytest

from tests.claims.tables.test_reading import grid
from webapp.claims.models import PaperTable
from webapp.claims.tables.judge import ClaimedCell, Judgement, gives_cell, judge, lost_to
from webapp.claims.tables.shown import ShownTable

ROWS = ("Wren", "Tit", "Lark-7B", "Heron (ours)")
HEADS = ("GSM8K", "MATH", "Latency (ms)")
NUMBERS = {
    (row, head): f"{10 * r + c}.{3 * r + c + 1}"
    for r, row in enumerate(ROWS, 1)
    for c, head in enumerate(HEADS, 1)
}


def shown() -> ShownTable:
    lines = [f"{row} | " + " | ".join(NUMBERS[row, head] for head in HEADS) for row in ROWS]
    table = grid(" | ".join(("Method", *HEADS)), f"={lines[0]}", *lines[1:])
    return ShownTable(PaperTable(number="Table 2", anchor="S4.T2"), table, ["Heron"], "")


TABLE = shown()


def verdict(value: str, subject: str, about: str, quote: str = "") -> Judgement:
    return judge(ClaimedCell(Decimal(value), subject, about, quote), [TABLE])


def written(row: str) -> tuple[str, ...]:
    """The ways in which a model names the method of a row."""
    if row.startswith("Heron"):
        return ("Heron", "our method", "Heron (ours)", "the proposed Heron", "")
    return (row, f"the {row} baseline", row.replace("-", " "), f"{row} model")


@pytest.mark.parametrize(("row", "head"), NUMBERS)
def test_a_true_claim_is_confirmed(row: str, head: str) -> None:
    for subject in written(row):
        for about in (f"accuracy on {head}", head, f"{head}, zero-shot"):
            for quote in (f"| {row} | {NUMBERS[row, head]} |", f"{row} reaches it on {head}."):
                assert verdict(NUMBERS[row, head], subject, about, quote).is_confirmed


@pytest.mark.parametrize(("row", "other"), [*permutations(ROWS, 2)])
def test_a_number_of_another_row_refutes_a_claim(row: str, other: str) -> None:
    for head in HEADS:
        number = NUMBERS[row, head]
        for subject in filter(None, written(other)):  # who names nobody says nothing of whom
            for quote in (f"| {row} | {number} |", f"On {head}, {row} reaches {number}."):
                found = verdict(number, subject, f"accuracy on {head}", quote)
                assert found.otherwise == f"Table 2: {row} × {head} = {number}"


@pytest.mark.parametrize(("head", "other"), [*permutations(HEADS, 2)])
def test_a_number_under_another_head_refutes_a_claim(head: str, other: str) -> None:
    for row in ROWS:
        for subject in written(row):
            found = verdict(NUMBERS[row, head], subject, f"score on {other}", "| a | 1 |")
            assert found.otherwise == f"Table 2: {row} × {head} = {NUMBERS[row, head]}"


@pytest.mark.parametrize(
    ("value", "subject", "about", "quote"),
    [
        # No cell has it; nobody of the table is named; it is a difference; the prose says so.
        ("99.9", "Wren", "accuracy on GSM8K", "Wren reaches 99.9 on GSM8K."),
        ("11.5", "Crane", "accuracy on GSM8K", "Crane reaches 11.5 on GSM8K."),
        ("11.5", "Heron", "improvement on GSM8K", "Heron improves GSM8K by 11.5."),
        ("11.5", "Heron", "points on GSM8K", "Heron gains 11.5 points on GSM8K."),
        ("11.5", "Tit", "accuracy on AIME", "Tit has 11.5 on AIME."),
        ("11.5", "Tit", "accuracy on GSM8K", "Tit reaches 11.5 on GSM8K with voting."),
        ("11.5", "Wren-large", "accuracy on GSM8K", "| Wren | 11.5 |"),
    ],
)
def test_what_no_cell_decides_is_not_refuted(
    value: str, subject: str, about: str, quote: str
) -> None:
    assert not verdict(value, subject, about, quote).otherwise


@pytest.mark.parametrize(
    "quote", ["It reaches 11.5 on GSM8K.", "Wren reaches 11.5 on GSM8K, and Tit follows."]
)
def test_prose_that_gives_the_number_to_nobody_else_is_of_the_row(quote: str) -> None:
    judged = verdict("11.5", "Tit", "accuracy on GSM8K", quote)
    assert judged.otherwise == "Table 2: Wren × GSM8K = 11.5"


@pytest.mark.parametrize(
    ("value", "subject", "about", "gives"),
    [
        ("1.5", "Wren", "accuracy on GSM8K", True),
        ("3.5", "Wren large", "accuracy on GSM8K", True),
        ("3.5", "Wren", "large inputs of GSM8K", False),  # another row is Wren and no more
        ("1.5", "Tit", "accuracy on GSM8K", False),
        ("1.5", "Wren", "accuracy", False),  # of which head?
        ("1.5", "Wren", "accuracy on GSM8K and MATH", False),
        ("1.5", "", "accuracy on GSM8K", False),
        ("9.5", "Wren", "accuracy on GSM8K", False),
    ],
)
def test_a_cell_gives_a_claim_whose_row_and_heads_it_names(
    value: str, subject: str, about: str, gives: bool
) -> None:
    read = grid("Method | GSM8K | MATH", "=Wren | 1.5 | 2.5", "Wren large | 3.5 | 4.5")
    table = ShownTable(PaperTable(number="Table 2", anchor="S4.T2"), read, ["Heron"], "")
    assert gives_cell(ClaimedCell(Decimal(value), subject, about, ""), [table]) is gives


def test_a_row_that_is_not_sure_decides_nothing() -> None:
    table = grid("Method | GSM8K", "=Wren | 1.5", " | 2.5", "Heron | 3.5")
    unsure = ShownTable(PaperTable(number="Table 1"), table, ["Heron"], "")
    claim = ClaimedCell(Decimal("2.5"), "Heron", "accuracy on GSM8K", "| | 2.5 |")
    assert judge(claim, [unsure]) == Judgement()


@pytest.mark.parametrize(("winner", "loser"), [*permutations(ROWS, 2)])
def test_who_loses_in_every_column_does_not_outperform(winner: str, loser: str) -> None:
    heads = ("Acc. ↑", "PPL ↓")
    order = {row: place for place, row in enumerate(ROWS, 1)}
    lines = [f"{row} | {order[row]}.5 | {9 - order[row]}.5" for row in ROWS]
    table = grid(" | ".join(("Method", *heads)), f"={lines[0]}", *lines[1:])
    tables = [ShownTable(PaperTable(number="Table 3"), table, ["Heron"], "")]
    names = ("Heron" if name.startswith("Heron") else name for name in (winner, loser))
    lost = lost_to(*names, "", tables)
    assert bool(lost) == (order[winner] < order[loser])
    assert not lost or lost.startswith(f"Table 3: {loser} × ")


def test_who_loses_somewhere_may_outperform() -> None:
    table = grid("Method | Acc. | PPL | Size", "=Wren | 1.5 | 2.5 | 3", "Heron | 2.5 | 3.5 | 4")
    tables = [ShownTable(PaperTable(number="Table 3"), table, ["Heron"], "")]
    assert lost_to("Heron", "Wren", "", tables) == ""
    assert lost_to("Heron", "Wren", "lower PPL", tables) == "Table 3: Wren × PPL = 2.5"
    assert lost_to("Heron", "Tit", "", tables) == ""
