"""Authors' names: out of TeX, and apart as reference managers want them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import ends_within
from webapp.papers.entries import Author
from webapp.papers.formats import parse_authors, parse_feed
from webapp.papers.models import Paper
from webapp.papers.names import Name, parse_name, unicode_name
from webapp.papers.search import search
from webapp.papers.store import prepare, store_papers
from webapp.ui.markup import without_tex


@pytest.mark.parametrize(
    ("tex", "name"),
    [
        (r"Bernhard Sch\"olking", "Bernhard Schölking"),
        (r"Ond\v{r}ej Bojak", "Ondřej Bojak"),
        (r"{\L}ukasz \.Zak", "Łukasz Żak"),
        (r"Andr\'{e} Bra\c{s}ov", "André Braşov"),
        (r"S{\o}ren {\O}rsted", "Søren Ørsted"),
        (r"Mar\'{\i}a Nu\~nez", "María Nuñez"),
        (r"Mar\'ia Ib\'{a}\~{n}ez", "María Ibáñez"),
        (r"Erd\H os P\'al", "Erdős Pál"),
        (r"Conor O\'Brien", "Conor O’Brien"),
        (r"J.\,P. Doe", "J. P. Doe"),
        (r"{\v C}edomir {\'C}iri\'c", "Čedomir Ćirić"),
        (r"I\c{s}{\i}k G\"une\c{s}", "Işık Güneş"),
        (r"Dominik Stra\ss{}er", "Dominik Straßer"),
        (r"\AA sa Bj\"ork", "Åsa Björk"),
        (r"Jos{\'e}~Mar{\'\i}a", "José María"),
        (r"Nguy\~{\^e}n V\u{a}n", "Nguyễn Văn"),
        ("Zoë Ahn", "Zoë Ahn"),
    ],
)
def test_a_name_in_tex_is_unicode(tex: str, name: str) -> None:
    assert unicode_name(tex) == name
    assert [author.name for author in parse_authors(f"{tex} (Lab, Town), Ada Cole")] == [
        name,
        "Ada Cole",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Ada Cole", Name("Ada", "", "Cole")),
        ("Ada Cole III", Name("Ada", "", "Cole", "III")),
        ("Ada B. Cole, Jr.", Name("Ada B.", "", "Cole", "Jr.")),
        ("Ada B. Cole Jr", Name("Ada B.", "", "Cole", "Jr")),
        ("Cole, Ada, III", Name("Ada", "", "Cole", "III")),
        (", Ada", Name(literal="Ada")),
        ("Ada Cole,", Name("Ada", "", "Cole")),
        ("Ludwig van Beethoven", Name("Ludwig", "van", "Beethoven")),
        ("Jan-Willem van de Meent", Name("Jan-Willem", "van de", "Meent")),
        ("Maria de los Angeles Ruiz", Name("Maria", "de los", "Angeles Ruiz")),
        ("Ella ten Brink", Name("Ella", "ten", "Brink")),
        ("Rogerio Abreu de Paula", Name("Rogerio Abreu", "de", "Paula")),
        ("Cecilia Di Ruberto", Name("Cecilia", "", "Di Ruberto")),
        ("Khalil Al Handawi", Name("Khalil", "", "Al Handawi")),
        ("Xue Bin Peng", Name("Xue Bin", "", "Peng")),
        ("Dang Van Tu", Name("Dang Van", "", "Tu")),
        ("Bob V. Lee", Name("Bob V.", "", "Lee")),
        ("Krishnan V.", Name("Krishnan", "", "V.")),
        ("Plato", Name(literal="Plato")),
        ("The ATLAS Collaboration", Name(literal="The ATLAS Collaboration")),
        ("GigaChat team", Name(literal="GigaChat team")),
        ("Bell and Howell", Name(literal="Bell and Howell")),
        ("Jean-Luc O'Hara-Smith", Name("Jean-Luc", "", "O'Hara-Smith")),
        ("  A.   B.  Cole ", Name("A. B.", "", "Cole")),
        ("", Name()),
    ],
)
def test_a_name_is_taken_apart(text: str, parts: Name) -> None:
    assert parse_name(text) == parts


@given(st.text(max_size=60))
def test_no_letter_of_a_name_is_lost(text: str) -> None:
    parts = parse_name(text)
    kept = f"{parts.given}{parts.particle}{parts.family}{parts.suffix}{parts.literal}"
    letters = sorted(letter for letter in text if letter.isalpha())
    assert sorted(letter for letter in kept if letter.isalpha()) == letters


@pytest.mark.parametrize(
    ("tex", "plain"),
    [
        (r"{\O}re and {\sc Foo} of {\rm abc}", "Øre and Foo of abc"),
        (r"\textless5 and \pounds 5", "<5 and £ 5"),
        (r"code \href{https://x.example/a\_b}{here}.", "code here (https://x.example/a_b)."),
        (r"\href{https://x.example/}{https://x.example/}", "https://x.example/"),
        (r"\textbf{a \emph{b}} {\bfseries c}", "a b c"),
        (r"50\% of R\&D, a\_b, \#1", "50% of R&D, a_b, #1"),
        (r"\$5 and \$6 and $\alpha_1$--score", r"\$5 and \$6 and $\alpha_1$–score"),
        (r"``so'' it---is", "“so” it—is"),
        (r"{BERT} and {a, b} of {x}", "BERT and {a, b} of {x}"),
        (r"\alpha is \beta, 3\times faster", "α is β, 3× faster"),
        (r"as in~\cite{foo,bar} we", "as in we"),
        (r"\ours beats \name{Foo}, \ie it", "ours beats Foo, i.e. it"),
        (r"of 5 \milli\second and {\next\one", "of 5 millisecond and {nextone"),
        (r"\sh{ We provide", "sh{ We provide"),
        (r"C:\temp\new and a\nb", r"C:\temp\new and a\nb"),
        (r"Universit\'{e} de Montr\'eal", "Université de Montréal"),
        ("plain_text with ~100 and 5% {of} it", "plain_text with ~100 and 5% {of} it"),
        (r"$x \in \{a\}$ \(y\) \[z\]", r"$x \in \{a\}$ \(y\) \[z\]"),
        ("one\n\n  two", "one\n\n  two"),
    ],
)
def test_text_outside_formulas_is_unicode(tex: str, plain: str) -> None:
    assert without_tex(tex).replace("  ", " ") == plain.replace("  ", " ")
    assert without_tex(without_tex(tex)) == without_tex(tex)


@given(st.text(alphabet=r"\{}$~`'-abcHv \"", max_size=50))
def test_the_step_is_idempotent_enough_to_be_repeated(text: str) -> None:
    done = without_tex(without_tex(text))
    for _ in range(30):
        again = without_tex(done)
        assert len(again) <= len(done) + 2
        if again == done:
            return
        done = again
    raise AssertionError(done)


def test_hostile_tex_takes_no_longer_than_a_breath() -> None:
    texts = ("{\\sc " * 4000, "\\href{" * 3000, "\\x{" * 6000, "\\'" * 9000, "{" * 20000)
    assert ends_within(6, lambda: [(without_tex(text), unicode_name(text)) for text in texts])


FEED = r"""<?xml version="1.0" encoding="UTF-8"?>
<rss xmlns:arxiv="http://arxiv.org/schemas/atom" xmlns:dc="http://purl.org/dc/elements/1.1/"
version="2.0"><channel><title>cs.LG</title><pubDate>Thu, 18 Dec 2025 00:00:00 -0500</pubDate>
<item><title>{\O}re: 5\% of {BERT}</title><link>https://arxiv.org/abs/2512.00010</link>
<description>arXiv:2512.00010v1 Announce Type: new
Abstract: See \href{https://x.example}{here}, {\sc Foo}.</description>
<guid isPermaLink="false">oai:arXiv.org:2512.00010v1</guid><category>cs.LG</category>
<arxiv:announce_type>new</arxiv:announce_type>
<dc:creator>Bernhard Sch\"olking, Ond\v{r}ej Bojak</dc:creator></item></channel></rss>"""


@pytest.mark.django_db
def test_a_feed_in_tex_is_stored_in_unicode_and_the_api_s_names_win() -> None:
    batch = parse_feed(FEED.encode(), "cs.LG", date(2025, 12, 18))
    store_papers(batch.entries, date(2025, 12, 18), prepare(batch.entries))
    paper = Paper.objects.get()
    assert paper.author_names == ["Bernhard Schölking", "Ondřej Bojak"]
    assert paper.title == "Øre: 5% of BERT"
    assert paper.abstract == "See here (https://x.example), Foo."
    assert [found.pk for found in search("author:Schölking").papers] == [paper.pk]
    (entry,) = batch.entries
    api = replace(entry, authors=(Author("Bernhard M. Schölking"), Author("Ondřej Bojak", "Lab")))
    store_papers([api], None, {}, known_at=timezone.now())
    assert Paper.objects.get().author_names == ["Bernhard M. Schölking", "Ondřej Bojak"]
    store_papers([entry], date(2025, 12, 19), {})  # the feed again: it changes no name
    assert Paper.objects.get().author_names[0] == "Bernhard M. Schölking"
