"""Tables as LaTeXML writes them, read by hand beside the LaTeX they were made of.

forms.tex holds the tables, forms.html what Debian's latexml 0.8.7 made of it (`latexmlc
--format=html5 forms.tex`, the article alone, of each formula only its source).
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from lxml import html

from tests.clock import ends_within
from webapp.claims.tables.grid import grids_of
from webapp.claims.tables.reading import Table, value_of
from webapp.papers.latexml import plain_tex


def tables_of(page: str) -> list[Table]:
    return [Table(grid) for _, grid in grids_of(html.document_fromstring(page))]


FORMS = tables_of(Path(__file__).with_name("forms.html").read_text())


def said(table: Table) -> list[tuple[str, str, str]]:
    """Row label, head path and the text of the cell of every value."""
    return [(" > ".join(v.row_label), " > ".join(v.head_path), v.cell.text) for v in table.values]


def test_heads_over_two_rows_blocks_marks_and_what_is_no_value() -> None:
    table = FORMS[0]
    assert table.grid.number == "Table 1"
    assert table.grid.caption == "Accuracy (%, ↑) on two benchmarks, mean of three seeds."
    assert said(table) == [
        ("Dense", "GSM8K > 0-shot", "41.2"),
        ("Dense", "GSM8K > 8-shot", "45.0"),
        ("Dense", "MATH > 0-shot", "11.3"),
        ("Dense", "MATH > 8-shot", "12.9"),
        ("Window†", "GSM8K > 0-shot", "42.0"),
        ("Window†", "GSM8K > 8-shot", "44.1"),
        ("Window†", "MATH > 0-shot", "10.0"),
        ("Window†", "MATH > 8-shot", "11.4"),
        ("with a chosen budget > Heron (ours)", "GSM8K > 0-shot", "43.5±0.2"),
        ("with a chosen budget > Heron (ours)", "GSM8K > 8-shot", "46.3 (+1.3)"),
        ("with a chosen budget > Heron (ours)", "MATH > 0-shot", "12.1"),
    ]
    assert [v.cell.text for v in table.values if v.cell.is_bold] == ["43.5±0.2", "46.3 (+1.3)"]
    assert [v.cell.text for v in table.values if v.cell.is_underlined] == ["42.0"]
    assert (table.values[8].spread, table.values[9].note) == (Decimal("0.2"), "+1.3")
    assert len({v.cell.anchor for v in table.values} - {""}) == 11


def test_methods_stand_over_columns_and_a_horizon_labels_rows() -> None:
    assert said(FORMS[1])[:5] == [
        ("Wind > 96", "Heron > MAE", "0.25"),
        ("Wind > 96", "Heron > RMSE", "0.41"),
        ("Wind > 96", "Lark > MAE", "0.31"),
        ("Wind > 96", "Lark > RMSE", "0.50"),
        ("Wind > 192", "Heron > MAE", "0.27"),
    ]
    values = [value.value for value in FORMS[1].values]
    assert values[8:14] == [
        Decimal(text) for text in ("1267.3", "2468.2", "1300.0", "2500.0", "0.000958", "0.5")
    ]


def test_of_two_tables_side_by_side_each_has_its_own_rows() -> None:
    assert said(FORMS[2])[:4] == [
        ("Wren", "Small > Score", "61.0"),
        ("Wren", "Small > Cost", "$0.24"),
        ("Crane", "Large > Score", "70.5"),
        ("Crane", "Large > Cost", "$1.30"),
    ]


def test_numbers_can_be_heads_and_bounds_and_words_are_no_values() -> None:
    assert said(FORMS[3]) == [
        ("Speed-up", "0.0", "2.1×"),
        ("Speed-up", "0.3", "2.0×"),
        ("Speed-up", "0.7", "1.8×"),
        ("Memory", "0.0", "38%"),
    ]


def test_broken_lines_of_a_head_are_one_head_and_a_rank_is_no_value() -> None:
    assert said(FORMS[4]) == [
        ("1 > Wren", "Latency (ms)", "3.5"),
        ("2 > Tit", "Latency (ms)", "4.5"),
        ("3 > Lark", "Latency (ms)", "5.5"),
        ("3 > Lark", "R@1 ↓", "56.6 (±1.96)"),
    ]


def test_a_second_head_serves_the_rows_below_it() -> None:
    assert said(FORMS[5])[3:6] == [
        ("Tit", "IS", "210"),
        ("Wren", "PSNR", "31.0"),
        ("Wren", "SSIM", "0.91"),
    ]


def test_a_table_without_rules_has_a_head() -> None:
    assert said(FORMS[6])[-1] == ("Tit", "Right", "4.0")


@pytest.mark.parametrize(
    ("text", "value", "unit", "spread", "note"),
    [
        ("74.3%", "74.3", "%", None, ""),
        ("18.41(+2.45)", "18.41", "", None, "+2.45"),
        ("56.6 (±1.96)", "56.6", "", "1.96", ""),
        ("85.3±0.2", "85.3", "", "0.2", ""),
        ("9.58e-04", "0.000958", "", None, ""),
        ("−0.58", "-0.58", "", None, ""),
        ("1,431×", "1431", "×", None, ""),
        ("×2.10", "2.10", "×", None, ""),
        ("$24.39", "24.39", "$", None, ""),
        ("118M", "118", "M", None, ""),
        (".5*", "0.5", "", None, ""),
    ],
)
def test_a_cell_that_holds_one_value(
    text: str, value: str, unit: str, spread: str | None, note: str
) -> None:
    expected = Decimal(value), unit, Decimal(spread) if spread else None, note
    assert value_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "—",
        "OOM",
        "N/A",
        "≤ 2",
        "90–130",
        "0.513 / 1.59",
        "1/2",
        "0.711 (0.476–0.894) x y",
        "Llama-3",
        "3.5.1",
        "1,23",
        "%",
        "±",
        "10.1.2",
        "[0.8, 1.2]",
        "5-shot",
        "2x4",
        "1e",
    ],
)
def test_a_cell_that_holds_none(text: str) -> None:
    assert value_of(text) is None


def test_formulas_are_read_as_text() -> None:
    assert plain_tex(r"85.3\pm 0.2").text == "85.3±0.2"
    assert plain_tex(r"\mathbf{43.5_{\pm 0.2}}").text == "43.5±0.2"
    assert plain_tex(r"R^{2}").text == "R^2"
    assert plain_tex(r"\downarrow").text == "↓"
    assert plain_tex(r"A\leftrightarrow B").text == "A↔B"
    assert plain_tex(r"\sqrt{\kappa}").text == "√κ"
    assert plain_tex(r"U_{1}/10^{4}").text == "U1/10^4"
    assert plain_tex(r"\beta\text{-VAE}").text == "β-VAE"
    assert plain_tex(r"r^{\prime}=4").text == "r′=4"
    for accent in ("hat", "widehat", "bar", "overline", "tilde", "widetilde", "vec"):
        assert plain_tex(rf"\{accent}{{y}}").text == "y"


def test_a_hostile_table_takes_linear_time_and_room() -> None:
    cell = "<td class='ltx_td' colspan='9999' rowspan='9999'>1</td>"
    row = f"<tr class='ltx_tr'>{cell * 50}</tr>"
    page = f"<article><table class='ltx_tabular'>{row * 2000}</table></article>"
    nested = "<table class='ltx_tabular'><tr class='ltx_tr'><td class='ltx_td'>" * 20_000
    assert tables_of(page) == []
    for read, text in (
        (tables_of, page),
        (tables_of, f"<article>{nested}</article>"),
        (value_of, "1" * 300),
        (value_of, "±" * 300),
        (value_of, "1 (" * 100),
    ):
        assert ends_within(4, read, text)


def grid(*rows: str) -> Table:
    """A table of rows whose cells stand between bars; "=" before a row is a line over it.

    A cell that ends with {c2} or {r3} spans columns or rows.
    """

    def cell(text: str, css: str) -> str:
        span = re.search(r"\{([cr])(\d)\}$", text)
        text = text[: span.start()] if span else text
        wide = f"{'colspan' if span[1] == 'c' else 'rowspan'}='{span[2]}'" if span else ""
        return f"<td class='ltx_td {css}' {wide}>{text}</td>"

    body = "".join(
        "<tr class='ltx_tr'>"
        + "".join(
            cell(text.strip(), "ltx_border_t" if line[0] == "=" else "")
            for text in line.lstrip("=").split("|")
        )
        + "</tr>"
        for line in rows
    )
    (table,) = tables_of(f"<table class='ltx_tabular'>{body}</table>")
    return table


def told(table: Table) -> list[tuple[str, str, str]]:
    return [("/".join(v.row_label), "/".join(v.head_path), v.cell.text) for v in table.values]


def test_labels_behind_an_empty_first_column() -> None:
    """A column of skills that only the rows of blocks fill, by a dash."""
    table = grid(
        "Skill | | A | B", "=– | Math | |", " | GSM8K | 1 | 2", "– | Chat | |", " | Arena | 3 | –",
        "– | Safety | 4 | 5",
    )  # fmt: skip
    assert told(table) == [
        *[("Math/GSM8K", "A", "1"), ("Math/GSM8K", "B", "2"), ("Chat/Arena", "A", "3")],
        *[("Safety", "A", "4"), ("Safety", "B", "5")],
    ]


def test_a_label_above_empty_cells_holds_for_them() -> None:
    table = grid("Kind | Set | n", "=Math | GSM | 1", " | AIME | 2", "Code | MBPP | 3", "All | | 6")
    assert [label for label, _, _ in told(table)] == ["Math/GSM", "Math/AIME", "Code/MBPP", "All"]
    broken = grid("Kind | Set | n", "=Chat &amp; | Arena | 1", "Search | NQ | 2", " | TriviaQA | 3")
    assert [label for label, _, _ in told(broken)] == [
        "Chat & Search/Arena",
        "Chat & Search/NQ",
        "Chat & Search/TriviaQA",
    ]
    middle = grid("Kind | Set | n", "= | GSM | 1", "Math | AIME | 2", " | MATH | 3")
    assert [label for label, _, _ in told(middle)] == ["Math/GSM", "Math/AIME", "Math/MATH"]


def test_a_dash_behind_a_name_is_a_missing_value_and_no_block() -> None:
    table = grid("Method | A | B", "=Wren | – | –", "Tit | 1 | 2")
    assert [label for label, _, _ in told(table)] == ["Tit", "Tit"]


def test_numbers_under_a_whole_row_of_words_are_values() -> None:
    table = grid("Run | First | Second", "Ranks | 64 | 16", "=Devices | 512 | 128")
    assert told(table)[:2] == [("Ranks", "First", "64"), ("Ranks", "Second", "16")]


def test_powers_of_ten() -> None:
    math = r"<math alttext='3.0\\times 10^{-4}'></math>".replace("\\\\", "\\")
    table = grid("Rate | A", f"Peak | {math}", "Low | 2.5·10^3")
    assert [v.value for v in table.values] == [Decimal("0.00030"), Decimal("2500")]


def test_whole_numbers_that_tell_no_rows_apart_are_values() -> None:
    design = grid("Dataset | N | H", "=Wind | 21 | 432", "Wind | 21 | 1440")
    assert told(design)[:2] == [("Wind", "N", "21"), ("Wind", "H", "432")], "N is the same of both"
    results = grid("Dataset | H | MAE", "=Wind | 432 | 2.1", "Wind | 1440 | 2.4")
    assert told(results) == [("Wind/432", "MAE", "2.1"), ("Wind/1440", "MAE", "2.4")]


@pytest.mark.parametrize("above", ["", "Run | (1){c%d} | (2){c%d}"])
@pytest.mark.parametrize("shares", [("0%", "3%"), ("1", "2", "3"), ("0.1", "0.5", "1.0")])
def test_numbers_that_repeat_under_each_head_are_heads(shares: tuple[str, ...], above: str) -> None:
    wide = len(shares)
    rows = [above % (wide, wide)] if above else []
    rows += [f"Outcome | Wind{{c{wide}}} | Rain{{c{wide}}}", " | ".join(("Share", *shares * 2))]
    values = [f"{n}.{n}7" for n in range(2 * wide)]
    table = grid(*rows, " | ".join(("=Heron", *values)), " | ".join(("Wren", *values[::-1])))
    heads = [(name, share) for name in ("Wind", "Rain") for share in shares]
    expected = [(("Heron",), head, value) for head, value in zip(heads, values, strict=True)]
    read = [(v.row_label, v.head_path[-2:], v.cell.text) for v in table.values]
    assert read[: 2 * wide] == expected


@pytest.mark.parametrize("unfinished", range(6))
def test_a_row_whose_values_are_not_there_yet_names_no_block(unfinished: int) -> None:
    names = ("Plain", "Ours", "Gain")
    rows = [
        ["Wren" if not n else "Tit" if n == 3 else "", names[n % 3], f"{n}.5", f"{n}.7"]
        for n in range(6)
    ]
    rows[unfinished][2:] = ["", ""]
    lines = [("=" if n % 3 == 0 else "") + " | ".join(row) for n, row in enumerate(rows)]
    labels = {
        (base, names[n % 3])
        for n, base in enumerate(("Wren",) * 3 + ("Tit",) * 3)
        if n != unfinished
    }
    assert {v.row_label for v in grid("Base | Goal | A | B", *lines).values} == labels


def test_a_head_that_spans_a_row_of_values_labels_no_row() -> None:
    table = grid(
        "Base{r3} | Goal{r2} | Wind{c2} | Rain{c2}", "A | B | A | B",
        "=Plain | 1.1 | 1.2 | 1.3 | 1.4", "Wren | Ours | 2.1 | 2.2 | 2.3 | 2.4",
        " | Gain | 3.1 | 3.2 | 3.3 | 3.4", "=Tit | Plain | 4.1 | 4.2 | 4.3 | 4.4",
    )  # fmt: skip
    labels = [label for label, _, _ in told(table)][::4]
    assert labels == ["Wren/Plain", "Wren/Ours", "Wren/Gain", "Tit/Plain"]


@pytest.mark.parametrize("alphas", [("0.05", "0.10"), ("0.1", "0.2", "0.3"), ("1e-3", "1e-4")])
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("spanned", [True, False])
def test_numbers_that_each_label_has_are_settings(
    alphas: tuple[str, ...], groups: int, spanned: bool
) -> None:
    rows = []
    for group in range(groups):
        for place, text in enumerate(alphas):
            name = f"Set {group}{f'{{r{len(alphas)}}}' if spanned else ''} | "
            first = name if place == 0 or not spanned else ""
            rows.append(f"{first}{text} | {group}.{place}5 | {group}.{place}7")
    table = grid("Data | α | FAR | Power", f"={rows[0]}", *rows[1:])
    assert [v.row_label for v in table.values][::2] == [
        (f"Set {group}", text) for group in range(groups) for text in alphas
    ]
    assert all(value.is_sure for value in table.values)


@pytest.mark.parametrize("ranges", [("75 to 191", "150 to 180"), ("72–159", "81–190")])
def test_a_column_of_numbers_and_ranges_labels_no_row(ranges: tuple[str, ...]) -> None:
    units = ("4", "3", *ranges)
    rows = [f"Wren {n} | {unit} | {n}.5" for n, unit in enumerate(units)]
    table = grid("Job | Units | UCB", f"={rows[0]}", *rows[1:])
    read = {v.row_label for v in table.values}
    assert read == {(f"Wren {n}",) for n in range(4)}
