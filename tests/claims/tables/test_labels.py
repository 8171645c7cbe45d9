"""The labels and heads of a value, for each layout of a table."""

from __future__ import annotations

from itertools import combinations, product

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


def sure(table: Table) -> list[str]:
    """The texts of the values whose label and heads are sure."""
    return [value.cell.text for value in table.values if value.is_sure]


@pytest.mark.parametrize("places", [*combinations(range(4), 2)])
def test_a_label_of_two_rows_is_of_neither(places: tuple[int, int]) -> None:
    names = ["Wren", "Tit", "Lark", "Crane"]
    names[places[1]] = names[places[0]]
    rows = [f"{name} | {n}.5 | {n}.7" for n, name in enumerate(names)]
    table = grid("Model | A | B", f"={rows[0]}", *rows[1:])
    assert sure(table) == [f"{n}.{m}" for n in range(4) if n not in places for m in (5, 7)]


@pytest.mark.parametrize("between", ["Small models{c3}", "Model | PSNR | SSIM"])
def test_a_label_may_return_in_another_part(between: str) -> None:
    rows = ["Wren | 1.5 | 2.5", "Tit | 3.5 | 4.5"]
    table = grid("Model | A | B", f"={rows[0]}", rows[1], f"={between}", f"={rows[0]}", rows[1])
    assert len(sure(table)) == 8


@pytest.mark.parametrize("places", [*combinations(range(4), 2)])
def test_a_head_of_two_columns_is_of_neither(places: tuple[int, int]) -> None:
    heads = ["A", "B", "C", "D"]
    heads[places[1]] = heads[places[0]]
    rows = [f"{name} | {n}.1 | {n}.2 | {n}.3 | {n}.4" for n, name in enumerate(MODELS)]
    table = grid(" | ".join(["Model", *heads]), f"={rows[0]}", *rows[1:])
    left = [f".{n + 1}" for n in range(4) if n not in places]
    assert sure(table) == [f"{n}{text}" for n in range(3) for text in left]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("bare", [1, 2])
def test_a_row_with_the_label_of_its_group_alone_is_not_sure(size: int, bare: int) -> None:
    """Such as a row of standard deviations under the row of a method."""
    bare = min(bare, size - 1)
    lines = [f"Small{{r{size}}} | Wren | 0.5 | 0.7"]
    lines += [f"{'' if n == bare else f'Tit {n}'} | {n}.5 | {n}.7" for n in range(1, size)]
    table = grid("Kind | Model | A | B", f"={lines[0]}", *lines[1:], "=Large | Crane | 9.5 | 9.7")
    expected = [f"{n}.{m}" for n in range(size) if n != bare for m in (5, 7)]
    assert sure(table) == [*expected, "9.5", "9.7"]


@pytest.mark.parametrize("numbers", [1, 2])
@pytest.mark.parametrize("spanned", [True, False])
@pytest.mark.parametrize("methods", [("Plain", "Ours"), ("Zero-shot", "GA", "Ours")])
def test_names_behind_numbers_tell_apart_rows_of_one_label(
    numbers: int, spanned: bool, methods: tuple[str, ...]
) -> None:
    """Model, what it reaches without any method, and the methods."""
    lines = []
    for model in MODELS[:2]:
        for place, method in enumerate(methods):
            span = f"{{r{len(methods)}}}" if spanned else ""
            first = [f"{model}{span}", *(f"6{n}.5{span}" for n in range(numbers))]
            row = first if place == 0 or not spanned else []
            lines.append(" | ".join([*row, method, f"{place}.1", f"{place}.2"]))
    heads = ["Model", *("Clean", "Clean-2")[:numbers], "Method", "A", "B"]
    table = grid(
        " | ".join(heads), *(f"={line}" if n == 0 else line for n, line in enumerate(lines))
    )
    read = [v.row_label for v in table.values if v.head_path[-1] in {"A", "B"} and v.is_sure]
    assert read == [(model, m) for model in MODELS[:2] for m in methods for _ in "AB"]
    clean = [v for v in table.values if v.head_path[-1].startswith("Clean")]
    assert not spanned or not any(value.is_sure for value in clean), "they are of all the methods"


def test_a_row_that_ends_early_leaves_the_others_their_labels() -> None:
    table = grid(
        "Model | Clean | Method | A", "=Wren | 60.5 | Plain | 1.1", "Wren | 60.5 | Ours | 2.1",
        "Tit | 61.5",
    )  # fmt: skip
    read = [value.row_label for value in table.values if value.head_path == ("A",)]
    assert read == [("Wren", "Plain"), ("Wren", "Ours")]


def test_a_note_in_the_last_row_labels_nothing() -> None:
    table = grid("Method | A | B", "=Wren | 1.5 | 2.5", "Tit | 3.5 | 4.5", "* of three runs{c3}")
    read = [(value.row_label, value.cell.text) for value in table.values]
    assert read == [
        (("Wren",), "1.5"), (("Wren",), "2.5"), (("Tit",), "3.5"), (("Tit",), "4.5")
    ]  # fmt: skip


def test_numbers_that_differ_under_spanning_heads_are_values() -> None:
    """Above the first line, which sets the last row apart."""
    table = grid(
        "Method{r2} | Accuracy{c4}", "A{c2} | B{c2}", "Wren | 1.5 | 2.5 | 3.5 | 4.5",
        "=Tit | 5 | 6 | 7 | 8",
    )  # fmt: skip
    read = [(value.row_label[0], value.cell.text) for value in table.values]
    assert read == [
        *(("Wren", number) for number in ("1.5", "2.5", "3.5", "4.5")),
        *(("Tit", number) for number in ("5", "6", "7", "8")),
    ]


def test_a_head_is_as_high_as_its_highest_cell() -> None:
    table = grid(
        "Method{r2} | GSM8K | MATH", "zero-shot | few-shot", "Wren | 1.5 | 2.5", "Tit | 3.5 | 4.5"
    )
    heads = [value.head_path for value in table.values]
    assert heads == [("GSM8K", "zero-shot"), ("MATH", "few-shot")] * 2


def test_at_most_five_columns_label_a_row() -> None:
    table = grid(
        "A | B | C | D | E | F | Acc", "=one | two | three | four | five | six | 1.5",
        "uno | due | tre | quattro | cinque | six | 2.5",
    )  # fmt: skip
    assert [value.row_label for value in table.values] == [
        ("one", "two", "three", "four", "five"),
        ("uno", "due", "tre", "quattro", "cinque"),
    ]


@pytest.mark.parametrize("added", ["+ X", "＋ X", "w/ X", "with X"])
@pytest.mark.parametrize("taken", ["w/o Y", "without Y", "– Y"])
def test_what_is_left_out_after_an_addition_is_not_left_out_of_the_base(
    added: str, taken: str
) -> None:
    table = grid("Model | A", "=Baseline | 1.0", f"{added} | 2.0", f"{taken} | 3.0", "Tit | 4.0")
    read = [label for label, _ in labels(table)]
    assert read == [("Baseline",), ("Baseline", added), (taken,), ("Tit",)]
    alone = grid("Model | A", "=Full | 1.0", f"{taken} | 3.0", f"{added} | 2.0")
    assert [label for label, _ in labels(alone)] == [("Full",), ("Full", taken), ("Full", added)]


@pytest.mark.parametrize("missing", ["+ X", "w/o X", "– w/o X", "– X"])
@pytest.mark.parametrize("place", [1, 2])
def test_a_variant_without_values_names_no_block(missing: str, place: int) -> None:
    rows = ["Heron | 1.5 | 2.5", "w/o A | 3.5 | 4.5", "w/o B | 5.5 | 6.5"]
    rows.insert(place, f"{missing} | |")
    table = grid("Model | A | B", f"={rows[0]}", *rows[1:])
    read = [label for label, _ in labels(table)]
    assert all(missing not in label for label in read)
    assert read[0] == ("Heron",)


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("apart", [True, False])
def test_a_name_without_values_is_a_block_only_if_it_is_set_apart(place: int, apart: bool) -> None:
    rows = [f"{name} | {n}.5 | {n}.7" for n, name in enumerate(MODELS)]
    rows.insert(place, f"{'=' if apart else ''}Crane | |")
    table = grid("Model | A | B", f"={rows[0]}", *rows[1:])
    read = labels(table)
    assert [is_sure for _, is_sure in read] == [n < place or apart for n in range(3)]
    if apart:
        assert read[-1] == (("Crane", "Lark"), True)


def test_a_single_row_of_numbers_has_no_label() -> None:
    table = grid("Notebooks | Papers | Others | Total", "=12 | 7 | 3 | 22")
    assert sure(table) == []
    horizons = grid("Horizon | MAE | RMSE", "=96 | 0.25 | 0.41", "192 | 0.27 | 0.44")
    assert len(sure(horizons)) == 4


@pytest.mark.parametrize("chosen", [("25", "0.65", "0.10"), ("0.5", "0.65", "0.1", "0.9")])
def test_a_number_that_labels_two_rows_is_one_setting_of_several(chosen: tuple[str, ...]) -> None:
    """Each row changes one setting: then the first setting alone names no row."""
    rows = []
    for n, setting in enumerate(chosen):
        changed = [*chosen[:n], f"{setting}1", *chosen[n + 1 :]]
        rows.append(" | ".join([*changed, f"9{n}.5", f"8{n}.5"]))
    heads = [*(f"Setting {n}" for n in range(len(chosen))), "A", "B"]
    assert sure(grid(" | ".join(heads), f"={rows[0]}", *rows[1:])) == []
