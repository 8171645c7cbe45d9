"""Notes, powers, spreads, gains, colours and boxes beside the numbers of LaTeXML's tables.

marks.tex holds the tables, marks.html what Debian's latexml 0.8.7 made of it (`latexmlc
--format=html5 marks.tex`, the article alone, of each formula only its source).
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

from tests.claims.tables.test_reading import grid, tables_of
from webapp.claims.models import PaperTable
from webapp.claims.tables.store import packed, unpacked
from webapp.papers.latexml import plain_tex
from webapp.summaries.html_text import sections_of_html

MARKS = tables_of(Path(__file__).with_name("marks.html").read_text())


def test_numbers_are_what_stands_on_the_line() -> None:
    values = [(v.row_label[-1], v.head_path[0], f"{v.value:f}", v.note) for v in MARKS[0].values]
    assert values == [
        ("Wren", "Acc. ↑", "85", ""), ("Wren", "F1", "70.1", ""),
        ("Wren", "Steps", "1000", ""), ("Wren", "R^2", "85", ""),
        ("Tit", "Acc. ↑", "85.3", ""), ("Tit", "F1", "71.2", "+1.3"),
        ("Tit", "Steps", "10000", ""), ("Tit", "R^2", "0.0025", ""),
        ("Lark†", "Acc. ↑", "71.2", "+1.3"), ("Lark†", "F1", "71.2", "↑1.3"),
        ("Lark†", "Steps", "300000", ""), ("Lark†", "R^2", "43.5", ""),
        ("Heron (ours)", "Acc. ↑", "88.1", ""), ("Heron (ours)", "F1", "72.5", ""),
        ("Heron (ours)", "Steps", "63.5", ""), ("Heron (ours)", "R^2", "64.5", ""),
        ("Crane", "Acc. ↑", "87.0", ""), ("Crane", "F1", "70.3", ""),
        ("Crane", "Steps", "7.5", ""), ("Crane", "R^2", "63.5", ""),
        ("Swift", "Acc. ↑", "86.1", ""), ("(0.4)", "Acc. ↑", "75.2", "+2.1"),
        ("(0.4)", "F1", "61.0", ""), ("(0.4)", "Steps", "6.2", "+1.0"),
        ("Diff-3B", "Acc. ↑", "84.2", ""), ("Diff-3B", "F1", "80.0", ""),
        ("Diff-3B", "Steps", "0.000958", ""), ("Diff-3B", "R^2", "65.5", ""),
    ]  # fmt: skip
    notes = {v.cell.text: v.cell.note for v in MARKS[0].values if v.cell.note}
    assert notes == {"85": "1", "70.1": "1", "85.3": "1", "84.2": "*", "80.0": "a"}
    assert MARKS[0].values[11].spread == Decimal("0.2")


def test_colours_are_emphasis_and_no_text() -> None:
    coloured = {v.cell.text for v in MARKS[0].values if v.cell.is_coloured}
    assert {"88.1", "72.5", "63.5", "64.5", "87.0", "70.3"} <= coloured
    assert not {"85", "70.1", "84.2", "7.5"} & coloured
    stored = PaperTable(cells=packed(MARKS[0].grid))
    assert unpacked(stored).rows == MARKS[0].grid.rows


NUMBERS = ("85", "70.1", "0.5", "1,200", "-3.2", "85%", ".71", "100")
# What is raised or lowered, whether a number behind it is kept, and the note of its value.
SCRIPTS = [
    *[(text, "note") for text in ("1", "2", "12", "a", "b", "*", "**", "1,2", "[3]")],
    *[(text, "gain") for text in ("+1.3", "-0.4", "−2", "+12")],
    *[(text, "brackets") for text in ("(2.1)", "0.4", ".03")],
    *[(text, "spread") for text in ("±0.2", "±1")],
]


def written(number: str, script: str) -> Iterator[tuple[str, str]]:
    """The ways in which LaTeXML writes a raised or lowered text behind a number."""
    tex = script.replace("±", r"\pm ").replace("−", "-")
    number_tex = number.replace("%", r"\%")
    for tag, sign in (("sup", "^"), ("sub", "_")):
        yield f"{tag} element", f"{number}<{tag} class='ltx_sup'>{script}</{tag}>"
        span = f"<span class='ltx_text' style='font-size:70%'>{script}</span>"
        yield f"{tag} in a span", f"{number}<{tag}>{span}</{tag}>"
        yield f"{tag} of a span", f"<span>{number}</span><span class='ltx_{tag}'>{script}</span>"
        for start in (f"{number}<math alttext='{{}}", f"<math alttext='{number_tex}"):
            yield f"formula {tag}", f"{start}{sign}{{{tex}}}'></math>"
            yield f"fonts {tag}", f"{start}{sign}{{\\text{{{tex}}}}}'></math>"
            colour = "\\color[rgb]{1,0,0}"
            yield f"colour {tag}", f"{start}{sign}{{{{{colour}{tex}}}}}'></math>"
    yield "bold", f"<math alttext='\\mathbf{{{number_tex}}}_{{{tex}}}'></math>"


@pytest.mark.parametrize(("script", "kind"), SCRIPTS)
@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_raised_or_lowered_is_no_digit(number: str, script: str, kind: str) -> None:
    plain = Decimal(number.replace(",", "").rstrip("%"))
    for how, cell in written(number, script):
        (value,) = grid("M | A", f"=Wren | {cell}").values
        assert value.value == plain, (how, cell)
        inner = script.strip("()").replace("−", "-")
        assert value.cell.note == (script if kind == "note" else ""), (how, cell)
        if kind == "spread":
            assert value.spread == Decimal(inner[1:]), (how, cell)
        elif kind != "note":
            assert value.note.replace("−", "-") == inner, (how, cell)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("10<sup>3</sup>", "1E+3"), ("10<sup>-2</sup>", "0.01"), ("3×10<sup>4</sup>", "3E+4"),
        ("2.5 × 10<sup>−3</sup>", "0.0025"), ("<math alttext='10^{5}'></math>", "1E+5"),
        (r"<math alttext='1.5\times 10^{6}'></math>", "1.5E+6"),
        (r"2<math alttext='{}\times 10^{-4}'></math>", "0.0002"),
    ],
)  # fmt: skip
def test_exponents(cell: str, value: str) -> None:
    (read,) = grid("M | A", f"=Wren | {cell}").values
    assert read.value == Decimal(value)


COMMANDS = [
    r"\color{red}%s", r"\color[rgb]{0.0,0.45,0.81}%s", r"{\color[HTML]{FF0000}{%s}}",
    r"\textcolor{red}{%s}", r"\textcolor[rgb]{1,0,0}{%s}", r"\cellcolor{blue!10}%s",
    r"\cellcolor[HTML]{EFEFEF}{%s}", r"\rowcolor[gray]{0.9}%s", r"\colorbox{yellow}{%s}",
    r"\fcolorbox{red}{white}{%s}", r"\definecolor{own}{rgb}{0.1,0.2,0.3}\color{own}%s",
    r"\definecolor[named]{pgfstrokecolor}{rgb}{1,0,0}%s", r"\phantom{0}%s", r"%s\phantom{(+1.3)}",
    r"\hphantom{1}%s\vphantom{2}", r"\makecell[c]{%s}", r"\makebox[2em][r]{%s}", r"\fbox{%s}",
    r"\raisebox{1pt}{%s}", r"\scalebox{0.8}{%s}", r"\resizebox{1cm}{2pt}{%s}", r"\hbox{%s}",
    r"\multirow{2}{*}{%s}", r"\multicolumn{2}{c}{%s}", r"\boldsymbol{%s}", r"\parbox[t]{2cm}{%s}",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("outer", ["%s", r"\mathbf{%s}", r"\underline{%s}"])
def test_commands_of_colours_and_boxes_lose_their_arguments(command: str, outer: str) -> None:
    for number in ("63.5", "7", r"88.1_{\pm 0.2}"):
        tex = outer % (command % number)
        assert plain_tex(tex).text.replace(" ", "") == number.replace(r"_{\pm 0.2}", "±0.2"), tex


@pytest.mark.parametrize("name", ["F", "H", "BERT", "R@1 in R", "GPT-4 (CoT) M"])
def test_raised_and_lowered_text_of_a_name_stays_with_it(name: str) -> None:
    lowered, raised = (f"{name}<{tag}>2</{tag}>" for tag in ("sub", "sup"))
    (value, _) = grid(f"M | {lowered} | {raised}", "=Wren | 1.0 | 2.0").values
    assert value.head_path == (f"{name}2",)
    assert grid(f"M | {lowered} | {raised}", "=Wren | 1.0 | 2.0").values[1].head_path == (
        f"{name}^2",
    )


def test_a_size_lowered_behind_a_version_tells_rows_apart() -> None:
    sizes = [f"Llama-2<sub>{size}</sub>" for size in ("7B", "13B")]
    table = grid("M | A", *[f"={label} | 1.0" for label in sizes])
    assert [v.row_label for v in table.values] == [("Llama-2_7B",), ("Llama-2_13B",)]


@pytest.mark.parametrize(("script", "kind"), SCRIPTS)
@pytest.mark.parametrize("number", NUMBERS)
def test_prose_has_the_number_apart_from_its_note(number: str, script: str, kind: str) -> None:
    for (how, html), container in product(written(number, script), ("p", "li")):
        words = "Some words of a paper. " * 40
        page = f"<article><{container}>It reaches {html} here. {words}</{container}></article>"
        (section,) = sections_of_html(page.encode())
        joined = f"{number}{script}"
        assert joined not in section.text or kind == "spread", (how, section.text[:80])
        assert number in section.text.replace("\\%", "%"), (how, section.text[:80])


# An unknown command of colour as LaTeXML leaves it: its argument stands in the text behind it.
UNKNOWN = [
    ("blue!10", ("63.5", "7.25", "88", "0.5")), ("gray!15", ("88.1", "0.5", "9.5")),
    ("cyan!5", ("63.5", "0.75")), ("red", ("63.5", "7")), ("mygray", ("63.5", "0.5")),
    ("blue!10!white", ("63.5", "7")), ("[HTML]EFEFEF", ("63.5", "7", "0.5")),
    ("[rgb]0.0,0.45,0.81", ("63.5", "7.25", "0.5")), ("[rgb]1,0,0", ("63.5", "7.5")),
    ("[RGB]255,230,200", ("63.5",)),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "numbers"), UNKNOWN)
@pytest.mark.parametrize("command", ["cellcolor", "rowcolor", "textcolor", "color", "columncolor"])
def test_the_argument_of_an_unknown_colour_is_no_text(
    command: str, argument: str, numbers: tuple[str, ...]
) -> None:
    error = f"<span class='ltx_ERROR undefined'>\\{command}</span>{argument}"
    for number in numbers:
        bold = f"<span class='ltx_text ltx_font_bold'>{number}</span>"
        formula = f"<math alttext='{number}'></math>"
        for cell in (f"{error}{number}", f"{error} {number}", error + bold, error + formula):
            (value,) = grid("M | A", f"=Wren | {cell}").values
            assert value.cell.text == number, cell
            assert value.cell.is_coloured
    label = grid("M | A", f"={error} Heron (ours) | 1.0").values[0]
    assert label.row_label == ("Heron (ours)",)


@pytest.mark.parametrize("run", ["blue!550.1", "[gray]0.963.5", "[rgb]0.1,0.25,0.5563.55"])
def test_a_number_that_a_colour_runs_into_is_none(run: str) -> None:
    """5 of "blue!5" and 50.1, or 55 and 0.1: nobody can tell."""
    error = f"<span class='ltx_ERROR undefined'>\\cellcolor</span>{run}"
    values = {v.cell.text for v in grid("M | A | B", f"=Wren | {error} | 1.0").values}
    assert values <= {"1.0", "63.55"}


@pytest.mark.parametrize("command", ["cellcolor", "rowcolor", "textcolor", "color"])
@pytest.mark.parametrize(
    "argument", ["red", "mygray", "ForestGreen", "blue!10!white", "blue!10", "[HTML]EFEFEF", "best"]
)
@pytest.mark.parametrize("label", ["Wren", "wren (ours)", "GreenNet", "GPT-4", "R@1", "no RL"])
def test_no_word_behind_an_unknown_colour_is_lost(command: str, argument: str, label: str) -> None:
    """If the end of the colour's name is not sure, the name stays with the word."""
    error = f"<span class='ltx_ERROR undefined'>\\{command}</span>{argument}"
    for written in (f"{error}{label}", f"{error} {label}", f"{error}<b>{label}</b>"):
        read = grid("M | A", f"={written} | 1.0").values[0].row_label[0]
        assert read.endswith(label), (written, read)
        assert label[0].islower() or argument == "best" or read == label, (written, read)


@pytest.mark.parametrize("argument", ["best", "second", "ours"])
def test_a_colour_of_an_own_name_ends_at_a_number(argument: str) -> None:
    error = f"<span class='ltx_ERROR undefined'>\\cellcolor</span>{argument}"
    for cell in (f"{error}63.5", f"{error} 63.5", f"{error}<b>63.5</b>", f"{error}-63.5"):
        (value,) = grid("M | A", f"=Wren | {cell}").values
        assert value.cell.text.lstrip("-") == "63.5", cell
