"""HTML and PDF as sections of plain text; hostile files waste nothing but themselves."""

from __future__ import annotations

import io

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tests.clock import ends_within
from webapp.core.sandbox import UnreadableError
from webapp.summaries.html_text import sections_of_html
from webapp.summaries.pdf_text import sections_of_pdf

ROW = "<tr class='ltx_tr'><td class='ltx_td'>a</td><td class='ltx_td'>1</td></tr>"
TABULAR = f"<table class='ltx_tabular'>{ROW}{ROW}</table>"
LONG = "A sentence about sparse attention and its cost. " * 20


def pdf(pages: list[str]) -> bytes:
    """A PDF with one line of text a line given, Helvetica."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(600, 800)
        lines = "".join(f"({line}) Tj T* " for line in text.splitlines())
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 10 Tf 12 TL 40 760 Td {lines}ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_a_pdf_is_read_by_page_and_its_references_are_left_out() -> None:
    pages = [
        "Accuracy rises to 79.66 percent\n" + LONG,
        LONG + "\nReferences\nSomebody 555.5",
        "\n".join(
            f"[{n}] A. Body and B. Ody. A title. In Proceedings, 20{n}." for n in range(10, 30)
        ),
    ]
    sections = sections_of_pdf(pdf(pages))
    assert [s.title for s in sections] == ["page 1", "page 2"]
    assert "79.66 percent" in sections[0].text
    assert "555.5" not in sections[1].text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "could not be read"),
        (b"<html>not a PDF</html>", "could not be read"),
        (pdf([LONG])[:300], "could not be read"),
        (pdf([""]), "holds no text"),
    ],
)
def test_a_broken_pdf_is_said_to_be_so(body: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        sections_of_pdf(body)


def test_sections_headings_formulas_and_tables_of_html() -> None:
    page = f"""<article><script>evil()</script><section class="ltx_section" id="S1">
    <h2>1 <span>Introduction</span></h2><p>{LONG}</p>
    <section class="ltx_subsection"><h3>1.1 Cost</h3><p>It is
    <math alttext="O(n)"><mi>O</mi></math>.<p>x</p></section></section>
    <section class="ltx_bibliography"><h2>References</h2>hidden</section></article>"""
    sections = sections_of_html(page.encode())
    assert [s.title for s in sections] == ["1 Introduction", "1.1 Cost"]
    assert "It is $O(n)$ ." in sections[1].text
    assert not any("evil" in s.text or "hidden" in s.text for s in sections)


def test_a_model_reads_the_rows_of_a_table_with_its_heads() -> None:
    """LaTeXML breaks the line between all cells, and writes tables in paragraphs as spans."""
    page = f"""<article><p>{LONG}</p><p><span class="ltx_tabular">
    <span class="ltx_tr">
    <span class="ltx_td ltx_border_tt">Model</span>
    <span class="ltx_td ltx_border_tt">AUROC</span>
    <span class="ltx_td ltx_border_tt">PRR</span></span>
    <span class="ltx_tr">
    <span class="ltx_td ltx_border_t">SE</span>
    <span class="ltx_td ltx_border_t">0.699</span>
    <span class="ltx_td ltx_border_t">0.717</span></span>
    </span> follows.</p></article>"""
    text = sections_of_html(page.encode())[0].text
    assert "| Model | AUROC | PRR |\n| --- | --- | --- |\n| SE | 0.699 | 0.717 |\nfollows." in text


@pytest.mark.parametrize("body", [b"", b"   ", b"<p>short</p>", b"\xff\xfe\x00", b"<" * 100])
def test_a_page_without_a_paper_is_said_to_be_so(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        sections_of_html(body)


def test_a_page_that_nests_deeply_is_read() -> None:
    body = b"<div>" * 20_000 + LONG.encode()
    try:
        sections = sections_of_html(body)
    except UnreadableError:
        return
    assert "sparse attention" in sections[0].text


@pytest.mark.parametrize(
    "repeated",
    [
        "<h2>A</h2>b",
        "<p>A sentence of words. ",
        "<b>",
        "<td>1.5",
        "<table class='ltx_tabular'><tr class='ltx_tr'><td class='ltx_td'>1.5",
        TABULAR,
        "<td class='ltx_td' colspan='60'>1.5",
        "<section class='ltx_section'><h2>T</h2>x",
        "<h2>",
        "<math alttext='x'/>",
        "<!-- -->a",
        "word \n",
        "&amp;&#8203;",
    ],
)
def test_a_page_is_read_in_time_that_grows_with_its_length(repeated: str) -> None:
    body = "<article>" + LONG + repeated * (400_000 // len(repeated)) + "</article>"
    # A third of a second on a quiet machine; joining a section anew at every heading took minutes.
    assert ends_within(4, sections_of_html, body.encode())


ENTRIES = "\n".join(
    f"[{n}] A. Body and B. Ody, et al. A title. In Proceedings, 20{n}." for n in range(10, 30)
)


@pytest.mark.parametrize(
    "appendix",
    [
        "Appendix\nIt reaches 77.7 percent.",
        "A Appendix\nIt reaches 77.7 percent.",
        "Appendix A. Proofs\nIt reaches 77.7 percent.",
        "A Proofs\nIt reaches 77.7 percent.",
        "A. Additional Experiments\nIt reaches 77.7 percent.",
        "Supplementary Material\nIt reaches 77.7 percent.",
        "It reaches 77.7 percent.\n" + LONG,  # without a heading, and no list either
        f"{ENTRIES}\nA Details of training\nIt reaches 77.7 percent.",
    ],
    ids=lambda text: text[:20],
)
def test_what_follows_the_references_of_a_pdf_is_kept(appendix: str) -> None:
    whole = [LONG, f"{LONG}\nReferences\n{ENTRIES}", ENTRIES, appendix, LONG]
    text = "\n".join(section.text for section in sections_of_pdf(pdf(whole)))
    assert "77.7 percent" in text
    assert "Proceedings" not in text
    assert text.count(LONG[:40]) == 20 * (3 + appendix.count(LONG))


def test_formulas_without_alttext_are_read() -> None:
    formulas = (
        "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x_{1}</annotation>"
        "</semantics></math> and <math alttext=''><mi>a</mi><mo>+</mo><mi>b</mi></math> "
        "and <math alttext='y'><mi>z</mi></math>"
    )
    page = f"<article><p>We have {formulas}. {LONG}</p></article>"
    (section,) = sections_of_html(page.encode())
    assert section.text.startswith("We have $x_{1}$ and $a+b$ and $y$ .")
