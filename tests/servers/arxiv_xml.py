"""RSS, Atom and API answers in arXiv's own form (facts of its live feeds)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from xml.sax.saxutils import escape, quoteattr

from tests.servers.corpus import Announcement, Eprint
from webapp.papers.days import EASTERN

_SPACES = 'xmlns:arxiv="http://arxiv.org/schemas/atom" xmlns:dc="http://purl.org/dc/elements/1.1/"'


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), EASTERN)


def rss(category: str, day: date, announcements: Iterable[Announcement]) -> str:
    """The feed of `category`, built at the Eastern midnight that begins `day`."""
    published = format_datetime(midnight(day))
    items = "".join(rss_item(kind, paper, published) for kind, paper in announcements)
    return f"""<?xml version='1.0' encoding='UTF-8'?>
<rss {_SPACES} xmlns:atom="http://www.w3.org/2005/Atom" version="2.0">
  <channel>
    <title>{category} updates on arXiv.org</title>
    <link>http://rss.arxiv.org/rss/{category}</link>
    <description>{category} updates on the arXiv.org e-print archive.</description>
    <atom:link href="http://rss.arxiv.org/rss/{category}" rel="self" type="application/rss+xml"/>
    <docs>http://www.rssboard.org/rss-specification</docs>
    <language>en-us</language>
    <lastBuildDate>{format_datetime(midnight(day).astimezone(UTC))}</lastBuildDate>
    <managingEditor>rss-help@arxiv.org</managingEditor>
    <pubDate>{published}</pubDate>
    <skipDays><day>Saturday</day><day>Sunday</day></skipDays>
{items}  </channel>
</rss>
"""


def rss_item(kind: str, paper: Eprint, published: str) -> str:
    return f"""    <item>
      <title>{escape(paper.title)}</title>
      <link>https://arxiv.org/abs/{paper.arxiv_id}</link>
      <description>{_description(kind, paper)}</description>
      <guid isPermaLink="false">oai:arXiv.org:{paper.arxiv_id}v{paper.version}</guid>
{"".join(f"      <category>{name}</category>{chr(10)}" for name in paper.categories)}\
      <pubDate>{published}</pubDate>
{_extras(kind, paper)}    </item>
"""


def atom(category: str, day: date, announcements: Iterable[Announcement]) -> str:
    """The same feed as Atom."""
    updated = midnight(day).isoformat()
    entries = "".join(_atom_entry(kind, paper, updated) for kind, paper in announcements)
    return f"""<?xml version='1.0' encoding='UTF-8'?>
<feed xmlns="http://www.w3.org/2005/Atom" {_SPACES} xml:lang="en-us">
  <id>http://rss.arxiv.org/atom/{category}</id>
  <title>{category} updates on arXiv.org</title>
  <updated>{midnight(day).astimezone(UTC).isoformat()}</updated>
  <link href="http://rss.arxiv.org/atom/{category}" rel="self" type="application/atom+xml"/>
  <subtitle>{category} updates on the arXiv.org e-print archive.</subtitle>
{entries}</feed>
"""


def _atom_entry(kind: str, paper: Eprint, updated: str) -> str:
    return f"""  <entry>
    <id>oai:arXiv.org:{paper.arxiv_id}v{paper.version}</id>
    <title>{escape(paper.title)}</title>
    <updated>{updated}</updated>
    <link href="https://arxiv.org/abs/{paper.arxiv_id}" rel="alternate" type="text/html"/>
    <summary>{_description(kind, paper)}</summary>
{"".join(f"    <category term={quoteattr(name)}/>{chr(10)}" for name in paper.categories)}\
    <published>{updated}</published>
{_extras(kind, paper)}  </entry>
"""


def _description(kind: str, paper: Eprint) -> str:
    return escape(
        f"arXiv:{paper.arxiv_id}v{paper.version} Announce Type: {kind} \nAbstract: {paper.abstract}"
    )


def _extras(kind: str, paper: Eprint) -> str:
    creators = ", ".join(f"{name} ({place})" if place else name for name, place in paper.authors)
    lines = [
        f"<arxiv:announce_type>{kind}</arxiv:announce_type>",
        f"<dc:rights>{paper.license}</dc:rights>",
        f"<arxiv:DOI>{escape(paper.doi)}</arxiv:DOI>" if paper.doi else "",
        f"<arxiv:journal_reference>{escape(paper.journal_ref)}</arxiv:journal_reference>"
        if paper.journal_ref
        else "",
        f"<dc:creator>{escape(creators)}</dc:creator>",
    ]
    return "".join(f"      {line}\n" for line in lines if line)


def api(query: str, found: Sequence[Eprint], total: int, start: int) -> str:
    """One page of the API's answer."""
    entries = "".join(_api_entry(paper) for paper in found)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"\
 xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">
  <id>https://arxiv.org/api/synthetic</id>
  <title>arXiv Query: {escape(query)}</title>
  <updated>2026-01-01T00:00:00Z</updated>
  <opensearch:itemsPerPage>{len(found)}</opensearch:itemsPerPage>
  <opensearch:totalResults>{total}</opensearch:totalResults>
  <opensearch:startIndex>{start}</opensearch:startIndex>
{entries}</feed>
"""


def _api_entry(paper: Eprint) -> str:
    name = f"{paper.arxiv_id}v{paper.version}"
    authors = "".join(
        f"    <author><name>{escape(author)}</name>"
        + (f"<arxiv:affiliation>{escape(place)}</arxiv:affiliation>" if place else "")
        + "</author>\n"
        for author, place in paper.authors
    )
    categories = "".join(f"    <category term={quoteattr(c)}/>\n" for c in paper.categories)
    doi = f"    <arxiv:doi>{escape(paper.doi)}</arxiv:doi>\n" if paper.doi else ""
    journal = (
        f"    <arxiv:journal_ref>{escape(paper.journal_ref)}</arxiv:journal_ref>\n"
        if paper.journal_ref
        else ""
    )
    return f"""  <entry>
    <id>http://arxiv.org/abs/{name}</id>
    <title>{escape(paper.title)}</title>
    <updated>{paper.updated:%Y-%m-%dT%H:%M:%SZ}</updated>
    <link href="https://arxiv.org/abs/{name}" rel="alternate" type="text/html"/>
    <summary>{escape(paper.abstract)}</summary>
{categories}    <category term="68T50"/>
    <published>{paper.submitted:%Y-%m-%dT%H:%M:%SZ}</published>
    <arxiv:comment>{escape(paper.comment)}</arxiv:comment>
    <arxiv:primary_category term={quoteattr(paper.categories[0])}/>
{doi}{journal}{authors}  </entry>
"""


def error(title: str, summary: str) -> str:
    """An error as a feed."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <title>{escape(title)}</title>
  <entry><title>Error</title><summary>{escape(summary)}</summary></entry>
</feed>
"""
