from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.papers.identifiers import identifiers_in, parse_identifier


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
        ("arXiv:2601.01002 [cs.CL]", ("2601.01002", None)),
        ("arXiv:2202.09008v2 [cs, stat]", ("2202.09008", 2)),
        ("arXiv:2601.01002v1 [cs.CL] 5 Jan 2026", ("2601.01002", 1)),
        ("[arXiv:2601.01002]", ("2601.01002", None)),
        ("2601.01002V2", ("2601.01002", 2)),
        ("https://arxiv.org/abs/arXiv:2601.01002", ("2601.01002", None)),
        ("arxiv.org/pdf/arXiv:2601.01002V3.pdf", ("2601.01002", 3)),
        ("https://papers.cool/arxiv/2601.01002", ("2601.01002", None)),
        ("https://www.papers.cool/arxiv/2601.01002#cool", ("2601.01002", None)),
        ("https://www.alphaxiv.org/zh/overview/2601.01002v2", ("2601.01002", 2)),
        ("https://ui.adsabs.harvard.edu/abs/arXiv:2601.01002", ("2601.01002", None)),
        ("２６０１．０１００２", ("2601.01002", None)),
        ("\u200b2601.01002\u200b\n", ("2601.01002", None)),
        ("Math.GT/0309136", ("math/0309136", None)),
        ("《2601.01002》。", ("2601.01002", None)),
        ("「arXiv：2601.01002v2」！", ("2601.01002", 2)),
        ("**2601.01002**", ("2601.01002", None)),
        ("`2601.01002`:", ("2601.01002", None)),
        ("https%3A%2F%2Farxiv.org%2Fabs%2F2601.01002v1", ("2601.01002", 1)),
        ("https://doi.org/10.48550%2FarXiv.2601.01002", ("2601.01002", None)),
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
        "2613.01002",  # no such month
        "2600.01002",
        "hep-th/9913001",
        "0703.0001",  # before the numbers began
        "2601.0100",  # four digits until 2014, five since
        "1412.00001",
        "vol/9901001",
        "2601.01002#S1",
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "see 2601.01002, arXiv:2601.01002V2 and hep-th/9901001.",
            ["2601.01002", "hep-th/9901001"],
        ),
        ("https://papers.cool/arxiv/2601.01002,2601.01003", ["2601.01002", "2601.01003"]),
        ("2601.01002v2,2601.01003,x,2601.01004 and 1,2601.01005", ["2601.01002", "2601.01003"]),
        ("DBLP:journals/corr/abs-2301-01234", ["2301.01234"]),
        ("10.1234/2012.12345 and 10.48550/arXiv.2012.12344", ["2012.12344"]),
        ("it cost $2012.12345, or 2012.12344 EUR, at 2613.01002", []),
        ("请看2601.01002v2这篇，和hep-th/9901001。", ["2601.01002", "hep-th/9901001"]),
        (
            "论文arXiv：2601.01002很好，见《2601.01003》；共2601.01004元",
            ["2601.01002", "2601.01003"],
        ),
        ("http://x.example/?q=https%3A%2F%2Farxiv.org%2Fabs%2F2601.01002&sa=D", ["2601.01002"]),
        ("no. 2601.1234 of volume 9901001 and pages/9913001", []),
    ],
)
def test_identifiers_in_running_text(text: str, expected: list[str]) -> None:
    assert identifiers_in(text) == expected


def test_strict_reading_takes_a_single_reference() -> None:
    assert identifiers_in(" arXiv:2601.01002v2 [cs.CL]\n", strict=True) == ["2601.01002"]
    assert identifiers_in("see arXiv:2601.01002", strict=True) == []
