"""Sites to look at: what the database of each holds.

    python -m tests.scenes full

fills the database of ASSAY_DATA and prints a sign-in token a line.
"""

from __future__ import annotations

import json
import sys
from datetime import date, timedelta
from io import StringIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import django

READER, OTHER = "reader", "other"


def empty() -> None:
    """A site that has not asked arXiv for anything yet."""


def unreachable() -> None:
    """A first start without arXiv: nothing but the reasons."""
    from tests.factories import CATEGORIES, DAY, make_listing

    for category in CATEGORIES:
        make_listing(category, DAY, state="failed", counts={}, reason=UNREACHABLE)


UNREACHABLE = "rss.arxiv.org cannot be reached: Name or service not known."


def sample() -> None:
    """The same, with the sample day standing in, linked to methods and what was measured."""
    from django.core.management import call_command

    from webapp.catalog import chips, linking
    from webapp.digests.build import build
    from webapp.papers.models import Listing
    from webapp.papers.sample import load_sample

    if not Listing.objects.exists():
        unreachable()
    build(load_sample(UNREACHABLE).dates)
    call_command("import_results", stdout=StringIO())
    linking.link_new()
    chips.refresh()


def full() -> None:
    """A site in use: days with every state, a paper with versions, saved papers, profiles."""
    from tests import factories
    from webapp.library.models import ReadingList, Star
    from webapp.papers.models import Paper, PaperVersion

    first = 1
    for back in (6, 3, 2, 1, 0):
        factories.make_day(12, factories.DAY - timedelta(days=back), first=first)
        first += 12
    friday, saturday = date(2026, 3, 13), date(2026, 3, 7)
    for category in factories.CATEGORIES:
        factories.make_listing(
            category, saturday, state="empty", counts={}, reason="arXiv rests on a Saturday"
        )
    factories.make_listing("cs.LG", friday)
    factories.make_listing(
        "cs.DC",
        friday,
        problems=[
            {"item": "oai:arXiv.org:2603.99999v1", "reason": "unknown announce type “novel”"},
            {"item": "entry 14", "reason": "it has no title: <b>&amp;</b>"},
        ],
    )
    factories.make_listing(
        "cs.CL", friday, state="stale", counts={}, reason="arXiv sends Thursday’s batch again"
    )
    factories.make_listing(
        "cs.AI", friday, state="failed", counts={}, reason="503, asked to wait 600 s"
    )
    paper = Paper.objects.get(arxiv_id="2603.00049")
    old = paper.versions.get()
    PaperVersion.objects.create(
        paper=paper,
        number=2,
        title=old.title.replace("Honest", "Patient"),
        abstract=f"{old.abstract} We thank the reviewers.",
        announced_on=friday,
    )
    PaperVersion.objects.create(
        paper=paper, number=3, title=old.title, abstract=old.abstract, announced_on=friday
    )
    paper.version = 3
    paper.comment = "18 pages, 6 figures; code at https://example.org"
    paper.doi = "10.1000/example.2026.03"
    paper.journal_ref = "Proc. of the Example Conf. 12 (2026) 1–18"
    paper.license = "http://creativecommons.org/licenses/by/4.0/"
    paper.save()
    factories.make_paper(
        900,
        arxiv_id="hep-th/9901001",
        title="A Thousand Authors & <script>alert(1)</script>: $\\broken{",
        authors=[{"name": f"Author Nº{i}", "affiliation": "Sea, Dee"} for i in range(1000)],
    )
    reader = factories.make_reader(READER)
    profile = factories.make_profile(
        "long-context", name="Long context", owner=reader, is_published=True
    )
    papers = Paper.objects.filter(arxiv_id__startswith="2603.0005")
    factories.make_digest(profile, list(papers), factories.DAY)
    Star.objects.create(reader=reader, paper=paper)
    listed = ReadingList.objects.create(
        pk=1, reader=reader, name="Kernels to read", share_key="kept-by-the-reader"
    )
    listed.papers.add(paper)


FORMULAS = [
    r"$\mathcal{L}(\theta)=\sum_{i=1}^{N}\sum_{j=1}^{M}\alpha_{ij}\log p_\theta(x_i,y_j\mid z_1,"
    r"z_2,\ldots,z_K)+\lambda\|\theta\|_2^2+\beta D_{\mathrm{KL}}(q\,\|\,p)$",
    r"$(x_1^2+x_2^2+\cdots+x_n^2)^{\frac{p}{2}}\leq\frac{1}{2\pi i}\oint_{|z|=1}"
    r"\frac{f(z)}{(z-a)^{n+1}}\,dz\cdot\prod_{k=1}^{n}\left(1-\frac{1}{p_k^s}\right)^{-1}$",
    r"$SU(3)_C\times SU(2)_L\times U(1)_Y\times U(1)_{B-L}\times\mathbb{Z}_2\times\mathbb{Z}_4"
    r"\times\mathbb{Z}_{12}\rtimes A_4$",
]


def formulas() -> None:
    """A day whose titles and abstracts hold formulas wider than a phone."""
    from tests import factories

    for category in factories.CATEGORIES:
        factories.make_listing(category)
    papers = [
        factories.make_paper(
            number,
            title=f"Sparse bounds on {formula}, revisited",
            abstract=f"We bound {formula}, for $n^2$ tokens ({formula}). $${formula[1:-1]}$$ So.",
        )
        for number, formula in enumerate(FORMULAS, start=1)
    ]
    factories.make_digest(factories.make_profile(), papers)


DAYS = Path(__file__).parent / "browser/days.jsonl"


def days() -> None:
    """Three days of June and May 2026 with the papers that are hardest to set in rows.

    Their titles, sentences and formulas are as long as those of twenty papers a day that arXiv
    announced (https://arxiv.org, metadata under CC0): the longest, those with the most formulas and
    those with the longest words. The letters of most words are exchanged for others of their width.
    """
    from tests import factories
    from webapp.digests.models import DigestEntry

    profile = factories.make_profile()
    for category in factories.CATEGORIES:
        factories.make_listing(category)
    lines = [json.loads(line) for line in DAYS.read_text().splitlines()]
    number = 0
    for day, of_day in groupby(lines, itemgetter("day")):
        papers = []
        for line in of_day:
            number += 1
            authors = [{"name": "Ada Lindqvist-Ortiz"}] * line["authors"]
            text = {name: line[name] for name in ("title", "abstract")}
            papers.append(factories.make_paper(number, authors=authors, **text))
        digest = factories.make_digest(profile, papers, date.fromisoformat(day))
        for entry in DigestEntry.objects.filter(digest=digest):
            near = max((paper.title for paper in papers), key=len)
            words = {"keyword": "Large Language Model Reasoning", "where": ["title"], "points": 2}
            close = {"keyword": "learned:close", "closeness": "very close", "near": near}
            entry.matches = [words, {**close, "where": [], "points": 3}]
            entry.save()


HOSTILE = [
    '\u202eevil\u2066 <svg onload=alert(1)></svg><script>document.title="owned"</script>',
    r"$\href{javascript:alert(1)}{x}$ <math><mtext><img src=x onerror=alert(2)></mtext></math>",
    "A" * 2_000,
    "</title><script>alert(3)</script>\"'`{{7*7}}{% now %}",
    "$" + r"\frac{1}{" * 60 + "x" + "}" * 60 + "$",
    '<style>*{display:none}</style><a href="javascript:alert(4)">x</a>',
    "Z\u0338\u0357" * 400,
]


def hostile() -> None:
    """A day whose titles, abstracts and authors were written to break a page, as intake stores
    them.
    """
    from assay_common.text import clean
    from tests import factories

    for category in factories.CATEGORIES:
        factories.make_listing(category)
    papers = [
        factories.make_paper(
            number,
            title=text,
            abstract=f"{text} We propose {text} that is 3.5 times faster.",
            authors=[{"name": text[:300]}],
        )
        for number, text in enumerate(map(clean, HOSTILE), start=1)
    ]
    factories.make_digest(factories.make_profile(), papers)


def big(papers: int = 20_000, cards: int = 50) -> None:
    """20,000 papers, and a day of 50 cards with abstracts as long as arXiv lets them be on average.

    The words are those of Python's own manual: text that repeats itself would compress too well.
    """
    from pydoc_data.topics import topics

    from tests import factories
    from webapp.papers.models import Paper

    prose = " ".join(" ".join(topics.values()).split())
    abstracts = [prose[at : at + 1300] for at in range(0, cards * 1300, 1300)]
    shown = [
        factories.make_paper(number, title=text[-90:], abstract=text)
        for number, text in enumerate(abstracts, start=1)
    ]
    for category in factories.CATEGORIES:
        factories.make_listing(category)
    factories.make_digest(factories.make_profile(), shown)
    Paper.objects.bulk_create(
        [
            Paper(
                arxiv_id=f"2501.{number:05d}",
                title=model.title,
                abstract=model.abstract,
                authors=model.authors,
                primary_category=model.primary_category,
                categories=model.categories,
                title_html=model.title_html,
                abstract_html=model.abstract_html,
            )
            for number in range(papers - cards)
            for model in [shown[number % cards]]
        ],
        batch_size=1000,
    )


def main(scene: str) -> None:
    """Fill the database with a scene and hand out links for its reader."""
    django.setup()
    from webapp.core.database import bring_up_to_date
    from webapp.readers.links import make_link, reader_named

    bring_up_to_date()
    scenes = (empty, unreachable, sample, full, days, formulas, hostile, big)
    {one.__name__: one for one in scenes}[scene]()
    reader = reader_named(READER)
    for _ in range(4):
        sys.stdout.write(make_link(reader) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
