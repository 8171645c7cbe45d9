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
        ("arxiv.org/abs/2601.01002", ("2601.01002", None)),
        ("https://arxiv.org/html/2601.01002v1", ("2601.01002", 1)),
        ("https://www.arxiv.org/abs/2601.01002v2?context=cs#S1", ("2601.01002", 2)),
        ("https://arxiv.org/pdf/2601.01002v1.pdf?download=1", ("2601.01002", 1)),
        ("http://arxiv.org/abs/cs/0112017", ("cs/0112017", None)),
        ("arxiv.org/pdf/math.GT/0309136v1", ("math/0309136", 1)),
        ("10.48550/arXiv.2601.01002", ("2601.01002", None)),
        ("doi:10.48550/ARXIV.2601.01002", ("2601.01002", None)),
        ("https://doi.org/10.48550/arXiv.2601.01002v3", ("2601.01002", 3)),
        ("https://dx.doi.org/10.48550/arXiv.hep-th/9901001", ("hep-th/9901001", None)),
        ("https://huggingface.co/papers/2601.01002", ("2601.01002", None)),
        ("hf.co/papers/2601.01002", ("2601.01002", None)),
        ("https://www.alphaxiv.org/abs/2601.01002v1", ("2601.01002", 1)),
        ("https://www.alphaxiv.org/overview/2601.01002?tab=x", ("2601.01002", None)),
        ("https://www.semanticscholar.org/arxiv/2601.01002", ("2601.01002", None)),
        ("https://api.semanticscholar.org/arXiv:2601.01002", ("2601.01002", None)),
        ("https://api.semanticscholar.org/graph/v1/paper/arXiv:2601.01002", ("2601.01002", None)),
        ("https://ar5iv.labs.arxiv.org/html/2601.01002", ("2601.01002", None)),
        ("https:/arxiv.org/abs/2601.01002/", ("2601.01002", None)),  # a proxy merged the slashes
        ("<https://arxiv.org/abs/2601.01002>.", ("2601.01002", None)),
        ("arXiv: 2601.01002", ("2601.01002", None)),
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
        "10.1234/2012.12345",
        "https://doi.org/10.1234/2012.12345",
        "https://arxiv.example/abs/2601.01002",
        "https://example.org/arxiv.org/abs/2601.01002",
        "$2012.1234",
        "https://arxiv.org/list/2601.01002",
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
