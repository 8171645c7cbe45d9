"""A day with entries that are broken in every way we know, around good ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from email.utils import format_datetime

from tests.servers.arxiv_xml import midnight, rss, rss_item
from tests.servers.corpus import Announcement, Corpus, Eprint

SCRIPT_ID = "2601.00001"
MANY_AUTHORS_ID = "2601.00002"
AFFILIATIONS_ID = "2601.00003"
OLD_ID = "hep-th/9901001"
LATIN_ID = "2601.00004"
KEPT = {SCRIPT_ID, MANY_AUTHORS_ID, AFFILIATIONS_ID, OLD_ID, LATIN_ID}
REFUSED = 9  # entries that stand in the audit with a reason (the Latin-1 one is kept and told)


def hostile_rss(category: str, day: date, announcements: Iterable[Announcement]) -> bytes:
    """The feed of `category` with hostile entries between the good ones."""
    published = format_datetime(midnight(day))
    base = Corpus(day).feed("cs.CL", day)[0][1]

    def item(arxiv_id: str, kind: str = "new", **facts: object) -> str:
        paper: Eprint = replace(base, arxiv_id=arxiv_id, categories=(category,), doi="", **facts)  # type: ignore[arg-type]
        return rss_item(kind, paper, published)

    good = item("2601.00099")
    items = [
        item(SCRIPT_ID, title='<script>alert(1)</script><img src=x onerror="alert(2)"> on $x<y$'),
        item(MANY_AUTHORS_ID, authors=tuple((f"Author {n} Quill", "") for n in range(1000))),
        item(
            AFFILIATIONS_ID,
            authors=(("Ada Quill", "Moss Lab, Dept. (North, 2), Harbour"), ("Bram Ohm", "")),
        ),
        item(OLD_ID, kind="replace", version=2),
        item(LATIN_ID, title="Déjà vu"),
        item("2601.00011", kind="resurrected"),
        item("not-an-identifier"),
        item("2601.00012", title=""),
        item("2601.00013", abstract=""),
        item("2601.00014", title="x" * 5000),
        good.replace("2601.00099", "2601.00015").replace("<title>", "<title>R&D for "),
        good.replace("2601.00099", "2601.00016").replace("</description>", "</desc>"),
        "    <item></item>\n",
        good.replace("2601.00099", "2601.00017").replace("</item>", ""),
    ]
    feed = rss(category, day, announcements)
    mixed = feed.replace("  </channel>", "".join(items) + "  </channel>")
    return mixed.encode().replace("Déjà".encode(), b"D\xe9j\xe0")
