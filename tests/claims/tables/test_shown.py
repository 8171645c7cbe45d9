"""The table of a paper's main results, the paper's own rows, and the best values."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.claims.tables.test_reading import tables_of
from webapp.claims.models import PaperTable
from webapp.claims.tables.reading import Table
from webapp.claims.tables.shown import ShownTable, main_of, own_names

RIVALS = ("Wren", "Tit", "Lark", "Crane")


def page(caption: str, *rows: tuple[str, ...], colours: tuple[int, ...] = ()) -> str:
    """A table in its figure; rows of `colours` are coloured whole."""

    def line(number: int, row: tuple[str, ...]) -> str:
        css = "ltx_td ltx_border_t" if number == 1 else "ltx_td"
        style = " style='background-color:#E6E6E6;'" if number in colours else ""
        cells = "".join(f"<td class='{css}'>{text}</td>" for text in row)
        return f"<tr class='ltx_tr'{style}>{cells}</tr>"

    body = "".join(line(number, row) for number, row in enumerate(rows))
    return (
        f"<figure class='ltx_table'><figcaption class='ltx_caption'>{caption}</figcaption>"
        f"<table class='ltx_tabular'>{body}</table></figure>"
    )


def shown(*pages: str, title: str = "Heron: chosen blocks") -> list[ShownTable]:
    tables: list[Table] = [table for one in pages for table in tables_of(one)]
    names = own_names(title, "It is fast.", tables)
    return [
        ShownTable(PaperTable(position=number, anchor="S4"), table, names, "")
        for number, table in enumerate(tables)
    ]


def bold(text: str) -> str:
    return f"<span class='ltx_text ltx_font_bold'>{text}</span>"


HEAD = ("Method", "GSM8K", "MATH")
MAIN = page(
    "Table 1: Accuracy (%) of all methods.", HEAD,
    *((name, f"4{n}.1", f"1{n}.2") for n, name in enumerate(RIVALS)), ("Heron", "49.1", "19.2"),
)  # fmt: skip
OTHERS = {
    "a few methods": page("Table 2: On another data set.", HEAD, ("Wren", "4.1", "5.2"),
                          ("Heron", "6.1", "7.2")),
    "ablation": page("Table 3: Ablation of the parts.", HEAD, ("Heron", "49.1", "19.2"),
                     *((f"w/o {n}", f"4{n}.5", f"1{n}.5") for n in range(6))),
    "sweep": page("Table 4: Accuracy of Heron.", ("Budget", "GSM8K", "MATH"),
                  *((f"{n}%", f"4{n}.5", f"1{n}.5") for n in range(6))),
    "composition": page("Table 5: Composition of the training data.", ("Source", "Share", "Tokens"),
                        *((f"Heron part {n}", f"{n}.5", f"1{n}.5") for n in range(6))),
    "statistics": page("Table 6: Statistics of data sets.", ("Set", "#Train", "#Test"),
                       *((f"Nest {n}", f"{n}00", f"1{n}0") for n in range(6))),
    "others alone": page("Table 7: Accuracy of earlier methods.", HEAD,
                         *((name, f"4{n}.1", f"1{n}.2") for n, name in enumerate(RIVALS * 2))),
    "sizes": page("Table 8: Models.", ("Model", "#Params", "Layers"),
                  *((name, f"{n}", f"1{n}") for n, name in enumerate((*RIVALS, "Heron")))),
}  # fmt: skip


@pytest.mark.parametrize("pair", [*permutations(OTHERS, 2)])
def test_the_main_table_is_the_one_with_the_own_row_and_most_methods(pair: tuple[str, str]) -> None:
    for place in range(3):
        pages = [OTHERS[name] for name in pair]
        pages.insert(place, MAIN)
        tables = shown(*pages)
        assert main_of(tables) is tables[place]


def test_no_table_of_results_is_no_main_table() -> None:
    assert main_of(shown(OTHERS["composition"], OTHERS["statistics"])) is None


@pytest.mark.parametrize(
    "words",
    ["Statistics of the runs", "Hyper-parameters", "The number of samples", "An overview of it"],
)
def test_only_the_first_sentence_of_a_caption_says_what_a_table_is(words: str) -> None:
    explained = MAIN.replace("of all methods.", f"of all methods. {words} is given below.")
    (table,) = shown(explained)
    assert main_of([table]) is table
    assert main_of(shown(MAIN.replace("Accuracy (%) of all methods.", f"{words}."))) is None


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("less", range(1, 5))
def test_the_first_comparison_is_the_main_table_unless_another_is_twice_as_large(
    columns: int, less: int
) -> None:
    head = ("Method", *(f"Task {n}" for n in range(columns)))
    rows = [(name, *(f"4{n}.1" for n in range(columns))) for name in (*RIVALS, "Heron")]
    left = max(2, columns + 1 - less)
    wide = page("Table 1: Accuracy of all methods.", head, *rows)
    narrow = page("Table 2: Accuracy of all methods.", head[:left], *(row[:left] for row in rows))
    is_small = 2 * (left - 1) < columns
    for pages in ([wide, narrow], [narrow, wide]):
        tables = shown(*pages)
        assert main_of(tables) is tables[pages.index(wide) if is_small else 0]


def test_half_of_the_columns_may_be_settings() -> None:
    (table,) = shown(page("Comparison.", ("Model", "Acc.", "Epochs"), ("Wren", "66.2", "3"),
                          ("Tit", "65.8", "3")))  # fmt: skip
    assert main_of([table]) is table


@pytest.mark.parametrize("label", ["Heron", "Heron-7B", "Heron large", "Heron (k=4)", "Full Heron"])
@pytest.mark.parametrize("part", ["fusion", "heads", "encoder + heads", "layers only"])
def test_a_part_of_the_method_is_not_the_method(label: str, part: str) -> None:
    rows = [("Wren", "1.0", "2.0"), (label, "3.0", "4.0"), (f"Heron {part}", "5.0", "6.0")]
    assert own(shown(page("All.", HEAD, *rows))) == [{label}]


@pytest.mark.parametrize("model", ["w/ GPT-5", "– w/ GPT-5", "- with GPT-5", "GPT-5"])
@pytest.mark.parametrize("other", ["w/o Judge", "– w/o Judge", "+ Judge"])
def test_rows_under_the_name_of_the_method_are_its_own(model: str, other: str) -> None:
    rows = [
        ("Wren", "", ""), (model, "1.0", "2.0"), ("Heron", "", ""), (model, "3.0", "4.0"),
        (other, "5.0", "6.0"),
    ]  # fmt: skip
    (table,) = shown(page("All.", HEAD, *rows))
    assert {v.cell.text for v in table.table.values if table.is_own(v)} == {"3.0", "4.0"}


def test_ours_is_own_whatever_it_is_added_to() -> None:
    rows = [("Baseline (w/o style)", "1.0", "2.0"), ("+ KMeans", "3.0", "4.0"),
            ("+ DBSCAN (Ours)", "5.0", "6.0")]  # fmt: skip
    assert own(shown(page("All.", HEAD, *rows))) == [{"+ DBSCAN (Ours)"}]


def own(tables: list[ShownTable]) -> list[set[str]]:
    return [
        {value.row_label[-1] for value in table.table.values if table.is_own(value)}
        for table in tables
    ]


@pytest.mark.parametrize("ours", ["(ours)", "(Ours)", "(OURS)", "† (ours)"])
def test_a_name_that_one_table_calls_ours_is_own_in_all(ours: str) -> None:
    first = page("Table 1: A.", HEAD, ("Wren", "1.0", "2.0"), (f"DS Fusion {ours}", "3.0", "4.0"))
    second = page("Table 2: B.", HEAD, ("DS Fusion", "1.0", "2.0"), ("DSX", "3.0", "4.0"))
    tables = shown(first, second, title="On the fusion of nests")
    assert own(tables) == [{f"DS Fusion {ours}"}, {"DS Fusion"}]


@pytest.mark.parametrize(
    "says", ["HN = Heron", "HN=Heron", "HN stands for Heron", "HN denotes Heron"]
)
def test_an_abbreviation_of_a_caption_is_own(says: str) -> None:
    table = page(f"Table 1: All. {says}.", HEAD, ("Wren", "1.0", "2.0"), ("HN", "3.0", "4.0"))
    assert own(shown(table)) == [{"HN"}]
    other = page("Table 1: All. HN = Wren.", HEAD, ("Wren", "1.0", "2.0"), ("HN", "3.0", "4.0"))
    assert own(shown(other)) == [set()]


@pytest.mark.parametrize("place", range(1, 6))
def test_the_row_that_is_coloured_whole_and_best_is_own(place: int) -> None:
    rows = [(name, f"4{n}.1", f"1{n}.2") for n, name in enumerate((*RIVALS, "Swift"), 1)]
    name, first, second = rows[place - 1]
    rows[place - 1] = (name, bold(first), bold(second))
    title = "On nests that fly"
    assert own(shown(page("All.", HEAD, *rows, colours=(place,)), title=title)) == [{name}]
    assert own(shown(page("All.", HEAD, *rows), title=title)) == [set()], "bold alone is the best"
    plain = [(name, f"4{n}.1", f"1{n}.2") for n, name in enumerate(RIVALS, 1)]
    assert own(shown(page("All.", HEAD, *plain, colours=(1,)), title=title)) == [set()]
    every = range(1, 6)
    assert own(shown(page("All.", HEAD, *rows, colours=(*every,)), title=title)) == [set()]


def test_the_own_label_is_that_of_the_row_or_the_column() -> None:
    (by_row,) = shown(MAIN)
    (by_column,) = shown(page("All.", ("Data", "Wren", "Heron"), ("GSM8K", "41.1", "49.1"),
                              ("MATH", "12.2", "19.2"), ("MMLU", bold("61.1"), bold("69.1")),
                              colours=(3,)))  # fmt: skip
    (others,) = shown(OTHERS["others alone"])
    assert [table.own_label for table in (by_row, by_column, others)] == ["Heron", "Heron", ""]
    assert [row.is_own for row in by_row.rows] == [False] * 4 + [True]
    assert not any(row.is_own for row in by_column.rows), "the column is its own, no coloured row"


def test_of_two_comparisons_that_with_bold_figures_in_several_columns_is_the_main_table() -> None:
    rows = [(name, f"4{n}.1", f"1{n}.2") for n, name in enumerate(RIVALS)]
    plain = page("Accuracy of all methods.", HEAD, *rows, ("Heron", "49.1", "19.2"))
    marked = page("Accuracy of all methods.", HEAD, *rows, ("Heron", bold("49.1"), bold("19.2")))
    tables = shown(plain, marked)
    assert main_of(tables) is tables[1]


def best(*rows: tuple[str, ...], caption: str = "All.") -> set[str]:
    (table,) = shown(page(caption, *rows))
    return {value.cell.text for value in table.table.values if table.is_best(value.cell)}


def test_the_best_is_marked_only_where_it_is_known() -> None:
    rows = [("Wren", "1.0", "2.5"), ("Tit", "3.0", "4.5"), ("Heron", "2.0", "3.5")]
    assert best(("M", "Acc.", "PPL"), *rows) == {"3.0", "2.5"}
    assert best(("M", "A ↓", "B ↑"), *rows) == {"1.0", "4.5"}
    assert best(("M", "GSM8K", "MATH"), *rows) == set()
    assert best(("M", "GSM8K", "MATH"), *rows, caption="Accuracy (%).") == {"3.0", "4.5"}
    assert best(("M", "Acc.", "Params"), *rows) == {"3.0"}, "a size is no result"


@pytest.mark.parametrize("odd", ["300", "3000", "851"])
def test_an_outlier_is_no_best(odd: str) -> None:
    rows = [("Wren", "11.0"), ("Tit", "13.0"), ("Lark", "14.0"), ("Heron", odd)]
    assert best(("M", "Acc."), *rows) == set()


def test_what_the_paper_sets_in_bold_decides_against_a_greater_value() -> None:
    rows = [("Wren", "11.0"), ("Tit", bold("13.0")), ("Heron", "14.0")]
    assert best(("M", "Acc."), *rows) == set()


@pytest.mark.parametrize("label", ["Δ", "Improvement", "Gain (%)", "Diff."])
def test_a_difference_is_no_best(label: str) -> None:
    rows = [("Wren", "1.0"), ("Heron", "3.0"), (label, "9.0")]
    assert best(("M", "Acc."), *rows) == {"3.0"}


@pytest.mark.parametrize("ours", ["Ours", "ours, k=4", "our run"])
@pytest.mark.parametrize("theirs", ["Official", "official, k=4", "reported", "Original"])
def test_what_is_run_again_beside_the_official_result_is_not_own(ours: str, theirs: str) -> None:
    rows = [(f"Wren ({theirs})", "1.0", "2.0"), (f"Wren ({ours})", "1.1", "2.1")]
    title = "On nests that fly"
    assert own(shown(page("All.", HEAD, *rows), title=title)) == [set()]
    alone = page("All.", HEAD, ("Wren", "1.0", "2.0"), (f"Tit ({ours})", "1.1", "2.1"))
    assert own(shown(alone, title=title)) == ([set()] if "run" in ours else [{f"Tit ({ours})"}])


@pytest.mark.parametrize("says", ["HN is our calibrator", "HN is the proposed method"])
def test_a_name_that_a_caption_calls_ours_is_own(says: str) -> None:
    rows = [("Wren", "1.0", "2.0"), ("HN", "3.0", "4.0")]
    title = "On nests that fly"
    assert own(shown(page(f"All. {says}.", HEAD, *rows), title=title)) == [{"HN"}]
    assert own(shown(page("All. HN is fast.", HEAD, *rows), title=title)) == [set()]


@pytest.mark.parametrize("group", ["Heron", "Heron-4B", "heron-data-4B", "Wren + Heron-4B"])
@pytest.mark.parametrize("styles", [("debate", "interview"), ("one", "two", "all")])
def test_rows_of_a_group_with_the_name_of_the_method_are_its_own(
    group: str, styles: tuple[str, ...]
) -> None:
    head = ("Data", "Style", "GSM8K", "MATH")
    rows = [("Wren-4B", "raw", "1.0", "2.0")]
    rows += [(group, style, f"{n}.5", f"{n}.7") for n, style in enumerate(styles)]
    rows += [("Tit-4B", "raw", "3.0", "4.0")]
    assert own(shown(page("All.", head, *rows))) == [set(styles)]
