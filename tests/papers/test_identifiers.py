from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.papers.identifiers import parse_identifier


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2512.14925", ("2512.14925", None)),
        ("oai:arXiv.org:2512.14925v3", ("2512.14925", 3)),
        ("arXiv:0704.0001v12", ("0704.0001", 12)),
        ("https://arxiv.org/abs/hep-th/9901001v2", ("hep-th/9901001", 2)),
        ("http://export.arxiv.org/pdf/2512.14925v1.pdf", ("2512.14925", 1)),
        ("math.GT/0309136", ("math/0309136", None)),
        ("oai:arXiv.org:cond-mat.str-el/9901001v1", ("cond-mat/9901001", 1)),
    ],
)
def test_every_way_arxiv_writes_an_identifier(text: str, expected: tuple[str, int | None]) -> None:
    assert parse_identifier(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2512.149",
        "2512.14925v0",
        "2512.14925v1x",
        "hep-th/99",
        "٢٥١٢.١٤٩٢٥",
        "../etc",
        30 * "a" + "/9901001",
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an arXiv identifier"):
        parse_identifier(text)


@given(st.text())
def test_no_text_does_worse_than_refusal(text: str) -> None:
    try:
        identifier, _ = parse_identifier(text)
    except ValueError:
        return
    assert parse_identifier(identifier) == (identifier, None)
