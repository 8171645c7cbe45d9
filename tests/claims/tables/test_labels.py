"""The labels and heads of a value, for each layout of a table."""

from __future__ import annotations

from itertools import product

import pytest

from tests.claims.tables.test_marks import MARKS
from tests.claims.tables.test_reading import grid, tables_of
from webapp.claims.tables.reading import Table

MODELS = ("Wren", "Tit", "Lark")


def labels(table: Table) -> list[tuple[tuple[str, ...], bool]]:
    """The label of each row, and whether it is sure."""
    rows = {value.cell.row: (value.row_label, value.is_sure) for value in table.values}
    return list(rows.values())


def test_a_label_at_the_bottom_of_its_group_is_of_all_its_rows() -> None:
    assert [label for label, _ in labels(MARKS[1])] == [
        ("Small", "Wren"),
        ("Small", "Tit"),
        ("Small", "Lark"),
        ("Large", "Crane"),
        ("Large", "Heron"),
    ]


def grouped(sizes: tuple[int, ...], place: str, *, ruled: bool) -> Table:
    """Groups of rows whose label stands at the top, in the middle or at the bottom of its rows."""
    heads = "".join(f"<td class='ltx_td'>{text}</td>" for text in ("Kind", "Model", "A", "B"))
    lines = [f"<tr class='ltx_tr'>{heads}</tr>"]
    for number, size in enumerate(sizes):
        for row in range(size):
            css = "ltx_td ltx_border_t" if row == 0 and (ruled or number == 0) else "ltx_td"
            at, span = {
                "top span": (0, f" rowspan='{size}'"),
                "top": (0, ""),
                "middle": ((size - 1) // 2, ""),
                "bottom span": (size - 1, f" rowspan='-{size}'"),
            }[place]
            first = f"<td class='{css}'></td>"
            if row == at:
                first = f"<td class='{css}'{span}>Group {number}</td>"
            elif place == "top span":
                first = ""
            cells = "".join(f"<td class='{css}'>{text}</td>" for text in ("1.0", "2.0"))
            lines.append(
                f"<tr class='ltx_tr'>{first}<td class='{css}'>Model {row}</td>{cells}</tr>"
            )
    (table,) = tables_of(f"<table class='ltx_tabular'>{''.join(lines)}</table>")
    return table


@pytest.mark.parametrize("place", ["top", "top span", "middle", "bottom span"])
@pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 2), (1, 3), (4, 1), (3,), (5, 4)])
@pytest.mark.parametrize("ruled", [True, False])
def test_a_group_s_label_wherever_it_stands(
    sizes: tuple[int, ...], place: str, ruled: bool
) -> None:
    expected = [
        (f"Group {group}", f"Model {row}")
        for group, size in enumerate(sizes)
        for row in range(size)
    ]
    read = labels(grouped(sizes, place, ruled=ruled))
    if place == "middle" and not ruled:
        # A label of one row stands in the middle and at the top: there nobody can tell.
        for wanted, (label, is_sure) in zip(expected, read, strict=True):
            assert label == wanted or not is_sure or sizes[0] == 1
        return
    assert [label for label, _ in read] == expected
    assert all(is_sure for _, is_sure in read)


@pytest.mark.parametrize("numbers", [("12", "24", "36"), ("7", "70", "405"), ("0.5", "1.5", "3")])
def test_names_behind_numbers_label_their_rows(numbers: tuple[str, ...]) -> None:
    rows = [f"{n} | {name} | 1.0 | 2.0" for n, name in zip(numbers, MODELS, strict=True)]
    table = grid("Layers | Model | GSM8K | MATH", f"={rows[0]}", *rows[1:])
    assert [label for label, _ in labels(table)] == list(zip(numbers, MODELS, strict=True))


@pytest.mark.parametrize(
    "added", ["+ X", "+X", "＋ X", "↳ X", "└ X", "w/ X", "w/o X", "with X", "without X", "– X"]
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_row_that_adds_to_a_model_names_it(added: str, count: int) -> None:
    more = [f"{added}{n} | 1.{n} | 2.{n}" for n in range(count)]
    table = grid("Model | A | B", "=Wren | 1.0 | 2.0", *more, "Tit | 1.5 | 2.5", *more)
    assert [label for label, _ in labels(table)] == [
        label
        for name in ("Wren", "Tit")
        for label in [(name,), *((name, f"{added}{n}") for n in range(count))]
    ]


def test_a_row_that_adds_to_nothing_stands_alone() -> None:
    table = grid("Model | A", "=+ X | 1.0", "+ Y | 2.0")
    assert [label for label, _ in labels(table)] == [("+ X",), ("+ Y",)]


@pytest.mark.parametrize(("empty", "place"), [*product(("", "-", "–"), (1, 2))])
def test_a_row_without_a_label_is_not_sure(empty: str, place: int) -> None:
    rows = ["Wren | 1.0 | 2.0", "Tit | 3.0 | 4.0", "Lark | 5.0 | 6.0"]
    rows[place] = f"{empty} | 3.5 | 4.5"
    read = labels(grid("Model | A | B", f"={rows[0]}", *rows[1:]))
    assert [is_sure for _, is_sure in read] == [number != place for number in range(3)]


def test_a_column_without_a_head_is_not_sure() -> None:
    table = grid("Model | A | ", "=Wren | 1.0 | 2.0", "Tit | 3.0 | 4.0")
    assert [value.is_sure for value in table.values] == [True, False, True, False]


@pytest.mark.parametrize("missing", ["[PENDING]", "TBD", "pending", "to come"])
@pytest.mark.parametrize("count", [2, 3])
def test_a_word_that_stands_for_missing_numbers_labels_no_row(missing: str, count: int) -> None:
    given = [f"{name} | 1.{n} | 2.{n}" for n, name in enumerate(MODELS[:2])]
    pending = [f"{name}-L | {missing} | {missing}" for name in MODELS[:count]]
    table = grid("Model | A | B", f"={given[0]}", *given[1:], *pending)
    assert [label for label, _ in labels(table)] == [("Wren",), ("Tit",)]


def test_intervals_in_brackets_label_no_row() -> None:
    table = grid(
        "Model | Acc. (95% CI) | Time", "=Wren | 29.5 [22.1, 36.9] | 1.5", "Tit | 9.5 [2, 3] | 2.5"
    )
    assert labels(table) == [(("Wren",), True), (("Tit",), True)]


@pytest.mark.parametrize("last", ["Heron (ours)", "Average", "Crane"])
def test_a_rule_within_a_block_leaves_open_whether_the_block_goes_on(last: str) -> None:
    cell = "<td class='ltx_td ltx_border_t' colspan='3'>Small models</td>"
    block = f"<tr class='ltx_tr'>{cell}</tr>"
    rows = (
        ("Model", "A", "B"),
        ("Wren", "1.0", "2.0"),
        ("Tit", "3.0", "4.0"),
        (last, "5.0", "6.0"),
    )
    lines = [
        "<tr class='ltx_tr'>"
        + "".join(
            f"<td class='ltx_td{' ltx_border_t' if number == 3 else ''}'>{text}</td>"
            for text in row
        )
        + "</tr>"
        for number, row in enumerate(rows)
    ]
    lines.insert(1, block)
    (table,) = tables_of(f"<table class='ltx_tabular'>{''.join(lines)}</table>")
    assert [is_sure for _, is_sure in labels(table)] == [True, True, False]
