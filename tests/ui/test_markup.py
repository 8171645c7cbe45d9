"""Hostile text in, sanitised HTML out, and the mathematics kept."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import ends_within
from webapp.ui import markup
from webapp.ui.markup import plain, render, sanitise


class Reader(HTMLParser):
    """Collects what a browser would see: tags with attributes, text, and the marked text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.marked = ""
        self._marks = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._marks += tag == "mark"

    def handle_endtag(self, tag):
        self._marks -= tag == "mark"

    def handle_data(self, data):
        self.text += data
        if self._marks:
            self.marked += data


HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            ["<script>", "</script>", "<img src=x onerror=alert(1)>", "$", "$$", r"\(", r"\)", "{",
             "}", r"\emph{", r"\textbf{", "{\\bf ", r"\'", r"\href{javascript:alert(1)}{x}", "&lt;",
             r"\style{color:red}{x}", "<math>", "<style>", "<svg onload=a>", "^", "_", r"\frac",
             r"\left(", r"\begin{matrix}", "https://a.example/x?y=1&z=2).", r"\url{http://a.b}",
             "\x00", "\u202e", "\n\n", "--", "``", r"\x", "x", " ", "<!--", "]]>", "\\"]
        ),
        st.text(max_size=8),
    ),
    max_size=30,
).map("".join)  # fmt: skip
MARKS = st.lists(st.tuples(st.integers(-5, 200), st.integers(-5, 200), st.integers(0, 40)))


@given(HOSTILE, MARKS, st.booleans())
def test_nothing_unsanitised_comes_out(text, marks, links):
    html = render(text, marks, links=links)
    assert sanitise(html) == html
    read = Reader(html)
    assert set(read.tags) <= {*markup.DATA["mathml"], *markup.DATA["inline"]}
    for tag, name, value in read.attributes:
        assert not name.startswith("on")
        assert name not in {"style", "id", "src"}
        assert name != "href" or (tag == "a" and value.startswith(("http://", "https://")))
        assert name != "class" or value in {"tex", "held"}


@given(HOSTILE)
def test_links_only_where_they_may_stand(text):
    assert "<a" not in render(text)


@given(
    st.text(alphabet=st.characters(exclude_characters="\\$`'-~{}", exclude_categories=["C", "Z"]))
)
def test_text_without_tex_is_shown_as_it_is(text):
    assert Reader(render(text)).text == text
    assert plain(text) == text


@given(st.text(alphabet="ab <&", min_size=1, max_size=40), st.data())
def test_a_mark_holds_its_range(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert Reader(render(text, [(start, end, 3)])).marked == text[start:end]


def test_overlapping_marks_name_every_index():
    html = render("sparse attention", [(0, 16, 0), (7, 16, 2)])
    assert html == ('<mark data-k="0">sparse </mark><mark data-k="0 2">attention</mark>')


def test_marks_in_styled_text_stay_well_formed():
    html = render(r"a \emph{fast kernel} b", [(0, 12, 1)])
    assert html == ('<mark data-k="1">a </mark><em><mark data-k="1">fast</mark> kernel</em> b')


def test_a_mark_that_touches_a_formula_holds_all_of_it():
    html = render("an $n^2$ cost", [(4, 5, 0)])
    assert html.startswith('an <mark data-k="0"><math')
    assert html.endswith("</math></mark> cost")


@pytest.mark.parametrize(
    ("tex", "wanted"),
    [
        ("$n^2$", "<msup><mi>n</mi><mn>2</mn></msup>"),
        (r"\(a<b\)", "<mo>&lt;</mo>"),
        (r"$$\frac{1}{2}$$", '<math display="block">'),
        (r"$a\pm 3$", "<mo>±</mo>"),
        (r"$\sim$100", "<mi>∼</mi>"),
        (r"$3.5\times$", "<mn>3.5</mn><mi>×</mi>"),
        (r"$\bm{x}$", "bold-italic"),
        (r"$ x $", "<mi>x</mi>"),
        (r"$\mathcal{O}(n)$", "𝒪"),
        (r"$n\log n$", 'mspace><mi>log</mi><mspace width="0.167em">'),
        (r"$\min(a)$", "<mrow><mi>min</mi><mo "),
        (r"$\arg\max_i a_i$", "argmax"),
    ],
)
def test_mathematics_becomes_mathml(tex, wanted):
    html = render(f"so {tex} it is")
    assert wanted in html
    assert html.startswith("so <math")
    assert "$" not in html


def test_punctuation_stays_with_its_formula():
    held = '<span class="held">(<math display="inline">'
    assert render("of cost ($n$), then").startswith(f"of cost {held}")
    assert "</math>),</span> then" in render("of cost ($n$), then")
    assert "<span" not in render("of cost $n$ then")


@pytest.mark.parametrize(
    "tex", [r"$\frac{1$", r"$x_{$", r"$\unknown{x}$", "$" + "{" * 30 + "x" + "}" * 30 + "$"]
)
def test_broken_tex_shows_its_source(tex):
    html = render(tex)
    assert "<math" not in html
    assert Reader(html).text == tex


@pytest.mark.parametrize(
    ("tex", "words"), [(r"$\R^d$", "Rd"), (r"$\ours$", "ours"), (r"\(\SE(3)\)", "SE(3)")]
)
def test_a_macro_of_the_authors_own_is_read_by_its_name(tex, words):
    assert Reader(render(tex)).text == words
    assert "<math" in render(tex)


@pytest.mark.parametrize(
    "kind", ["mathop", "mathbin", "mathrel", "mathopen", "mathclose", "mathord"]
)
@pytest.mark.parametrize("inner", [r"{\mathrm{argmin}}", "{R}", r"{\rm prox}"])
def test_what_tex_spaces_as_an_operator_keeps_its_words(kind, inner):
    """Browsers show nothing of `<mo>` that holds elements."""
    html = render(rf"$a \{kind}{inner} b$")
    assert "<mo><" not in html
    assert re.search(r"argmin|R|prox", re.sub(r"<[^>]+>|\s", "", html))
    assert "<math" in html


@pytest.mark.parametrize("text", ["from $5 to $10", "US$5 vs US$10", "it costs $5", "5$"])
def test_money_is_no_mathematics(text):
    assert render(text) == text


@pytest.mark.parametrize(
    ("tex", "html"),
    [
        (r"Poincar\'e and G{\"o}del, \v{C}ech, Erd\H{o}s", "Poincaré and Gödel, Čech, Erdős"),
        (r"\'{\i}", "í"),
        (r"stra\ss e, \O rsted, \L{}ukasiewicz", "straße, Ørsted, Łukasiewicz"),
        (r"\emph{very \textbf{fast}} indeed", "<em>very <strong>fast</strong></em> indeed"),
        (r"{\bf bold} move", "<strong>bold</strong> move"),
        (r"95\% of R\&D", "95% of R&amp;D"),
        ("``so'' it--is---", "“so” it–is—"),
        ("Fig.~1 costs ~100", "Fig.&nbsp;1 costs ~100"),
        (r"\emph{never closed", r"\emph{never closed"),
        (r"an \unknown macro", r"an \unknown macro"),
        (r"a 360{\deg} video at 5\deg C", "a 360° video at 5° C"),
        (r"we build {\pname}, and {\relax}so", "we build pname, and so"),
        ("one\n\ntwo\n  three\nfour", "one<br>two<br>three\nfour"),
        ("<b>bold</b> & R", "&lt;b&gt;bold&lt;/b&gt; &amp; R"),
        ("a\x00b\u202ec", "abc"),
    ],
)
def test_text_macros(tex, html):
    assert render(tex) == html


def test_addresses_become_links_without_the_sentence():
    html = render("Code (https://example.org/a_(b)) is at http://example.org/x.", links=True)
    read = Reader(html)
    hrefs = [value for _, name, value in read.attributes if name == "href"]
    assert hrefs == ["https://example.org/a_(b)", "http://example.org/x"]
    assert read.text == "Code (https://example.org/a_(b)) is at http://example.org/x."
    assert 'rel="nofollow noopener noreferrer"' in html


def test_plain_is_one_line_of_unicode():
    text = "Erd\\H{o}s:\n \\emph{fast} $n^2$ --- at last"
    assert plain(text) == "Erdős: fast $n^2$ — at last"


def test_hostile_attributes_of_stored_html_are_dropped():
    html = sanitise(
        '<math style="x"><mspace width="99em" onclick="a()"></mspace><mi href="javascript:a()">x'
        '</mi></math><mark data-k="0; a" onmouseover="a()">m</mark><a href="javascript:a()">l</a>'
    )
    assert html == (
        "<math><mspace></mspace><mi>x</mi></math><mark>m</mark>"
        '<a rel="nofollow noopener noreferrer">l</a>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "$" * 100_000,
        r"\emph{" * 20_000,
        r"\(" * 30_000,
        "$" + r"\frac{" * 500 + "$",
        "$" + r"\sqrt" * 180 + "x$",
        "$x$" * 20_000,
        "{\\bf " * 20_000 + "}" * 20_000,
        "https://" + "(" * 50_000,
        "$" + r"\left(" * 150 + "$",
    ],
)
def test_the_worst_text_takes_no_longer_than_a_breath(text):
    assert ends_within(2, render, text)


def test_five_hundred_abstracts_take_seconds():
    abstract = (
        r"We study sparse attention with cost $\mathcal{O}(n^{%d} \log n)$ for $n \le 2^{%d}$; "
        r"a \emph{fast} kernel reaches $%d\times$ at 95\%% of the quality. "
    )
    texts = [(abstract % (i, i, i)) * 3 for i in range(500)]
    marks = [(9, 25, 0), (60, 70, 1), (120, 124, 2)]
    assert ends_within(10, lambda: [render(text, marks) for text in texts])
