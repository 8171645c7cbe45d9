"""Texts that make a careless pattern or parser slow: runs, pairs, nesting, near misses.

`python -m tests.text.pathological` prints, for every reader of foreign text, the worst of them.
"""

from __future__ import annotations

from collections.abc import Iterator

# What the readers' patterns turn on: each character alone, in pairs, and before an end that
# nothing matches.
SIGNS = "(){}[]<>$\\\"'`~^_&%@#*+-=/|.,:;!? \t\n\r0aAé中\u00a0\u200b\ufffd"
PAIRS = (
    *("a ", "A ", "0 ", "1,", "1.", "0.5 ", "$x", "$ ", "\\a", "\\{", "{}", "{a", "a_", "^2"),
    *("\\textbf{", "$\\frac{", "\\(", "<b>", "</b>", "<a href='x'>", "<td>", "&lt;", "&#", "<!--"),
    *("http://", "github.com/", "our ", "our code ", "we ", "et al. ", "a. A", "et al ", "- "),
    *("a-", "-a", "a\n", "\n\n", "\n ", "1-2 ", "10% ", "3x ", "up to ", "more than ", "vs "),
    *("@a{", "@string{a=", "TY  - ", "AU  - ", "TI  - a\n", '{"a":', '["', '"a",', "[{", "\\u0041"),
    *(
        "arXiv:",
        "2601.0000",
        "hep-th/",
        "doi.org/",
        "10.1/",
        "<think>",
        "</think>",
        "```",
        "```json",
    ),
    *("Jr. ", "von ", "O'", "A.", "A. B. ", "and ", ", ", "; ", "(a) ", "| a ", "|-", "=> ", "~~"),
)
NESTED = (
    *(("(", ")"), ("{", "}"), ("[", "]"), ("<div>", "</div>"), ("<span><i>", "</i></span>")),
    *(
        ("\\emph{", "}"),
        ("$\\sqrt{", "}$"),
        ('{"a":', "}"),
        ("<table><tr><td>", "</td></tr></table>"),
    ),
    *(("<math><msup>", "</msup></math>"), ("$_{", "}$"), ("@a{b, c={", "}}")),
)
HEADS = ("", "a", "(", "our ", "$", "{", '{"gist": "', "@article{a, title={")


def texts(length: int) -> Iterator[tuple[str, str]]:
    """Named texts of about `length` characters."""
    for unit in (*SIGNS, *PAIRS):
        run = unit * (length // len(unit))
        yield f"{unit!r} repeated", run
        yield f"{unit!r} repeated, then an end", run + "\x01!z"
    for opening, closing in NESTED:
        depth = length // (len(opening) + len(closing))
        yield f"{opening!r} nested", opening * depth + "x" + closing * depth
        yield f"{opening!r} never closed", opening * (length // len(opening))
        yield f"{closing!r} never opened", closing * (length // len(closing))
    for head in HEADS[1:]:
        for unit in ("a", " ", "a ", "1", ".", "-", "\\", "\n"):
            yield f"{unit!r} after {head!r}", head + unit * ((length - len(head)) // len(unit))
    alternating = ("a1", "a.", ". ", "A a. ", "(a)", "a b ", "1 a ", "$a$ ", "<a>", '"a" ', "a=b ")
    for unit in alternating:
        yield f"{unit!r} alternating", unit * (length // len(unit))
