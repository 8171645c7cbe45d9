"""Papers, days and digests as arXiv could have made them, straight into the database.

For what pages look like; how rows come to be from feeds is tested where that is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper, PaperVersion
from webapp.summaries.models import Summary
from webapp.ui.markup import render

DAY = date(2026, 3, 12)

TITLES = [
    r"Sparse Attention in $\mathcal{O}(n \log n)$: Block Selection that Survives Long Contexts",
    "Speculative Decoding with Three Small Drafts and One Honest Verifier",
    r"Token Pruning Without Regret: $\ell_1$ Budgets for Distributed Inference",
    r"Quantization to FP4 at Scale: What the Last $2\%$ of Accuracy Costs",
    "A Kernel for Every Shape: Fast Mixture-of-Experts Dispatch on One Node",
    r"Poincar\'e Embeddings Revisited: Efficient Training of Hierarchies",
    "Prefill Is Not Decode: Scheduling Two Pipelines on One Cluster",
    r"Reward Models that Admit \emph{Not Knowing}: RLHF under Ambiguity",
    "Scalable Communication for Pipeline Parallel Training over Slow Networks",
    "Hardware-Aware Attention Sinks",
]
OPENINGS = [
    r"Long sequences make attention the dominant cost of serving large language models. ",
    r"We ask how much of the $n^2$ cost of attention is spent on tokens nobody reads. ",
    r"Throughput figures for speculative decoding are rarely comparable between papers. ",
    r"Training with $k \ll n$ active experts saves arithmetic but not communication. ",
]
MIDDLES = [
    r"We select blocks of $b = 64$ keys by a learned bound $\hat{s}_{ij} \le s_{ij} + \epsilon$, "
    r"and show that attention over the kept blocks equals full attention up to $\mathcal{O}"
    r"(\sqrt{\epsilon})$ in total variation. ",
    r"The draft model proposes $\gamma$ tokens; the verifier accepts each with probability "
    r"$\min(1, p(x)/q(x))$, so the output distribution is unchanged. ",
    r"Our kernel fuses dispatch, expert GEMM and combine into one launch and overlaps "
    r"all-to-all with computation. ",
]
ENDINGS = [
    r"On eight accelerators we measure $3.5\times$ higher decoding throughput at 4k context and "
    r"$7.1\times$ at 128k, with a loss of at most 0.2 points on retrieval tasks. Code: "
    r"https://example.org/kept-blocks.",
    r"Across 14 tasks quality stays within $\pm 0.3\%$ of the dense baseline while memory traffic "
    r"falls by 62\%. We report where it fails: short prompts gain nothing.",
    r"The method needs no retraining, and the scheduler adds less than \textbf{40 microseconds} "
    r"a step.",
]
NAMES = [
    *("Ada Lindqvist", "Rafael Ortiz-Núñez", "Mei Tanaka", "Łukasz Wójcik", "Priya Raghavan"),
    *("Jonas Bäcker", "Amara Okafor", "Đorđe Petrović", "Sofia Marchetti", "Wei Chen"),
    *("Noor Haddad", "Thandiwe Mbeki", "Émile Girard", "Hana Nováková", "Yusuf Yıldız"),
    "Grace O’Malley",
]  # fmt: skip
CATEGORIES = ["cs.LG", "cs.CL", "cs.DC", "cs.AI"]
KEYWORDS = [("Attention", 0), ("Sparse", 1), ("Decoding", 2), ("Inference", 3), ("Kernel", 4)]


def make_paper(number: int = 1, **fields: Any) -> Paper:
    """The paper of that number: the same number, the same paper."""
    title = fields.pop("title", TITLES[number % len(TITLES)])
    abstract = fields.pop(
        "abstract",
        OPENINGS[number % len(OPENINGS)]
        + MIDDLES[number % len(MIDDLES)]
        + ENDINGS[(number // 2) % len(ENDINGS)],
    )
    authors = [
        {"name": NAMES[(number * 7 + i * 3) % len(NAMES)], "affiliation": ""}
        for i in range(1 + number * 5 % 11)
    ]
    primary = CATEGORIES[number % len(CATEGORIES)]
    defaults = {
        "arxiv_id": f"2603.{number:05d}",
        "title": title,
        "abstract": abstract,
        "authors": authors,
        "primary_category": primary,
        "categories": [primary, "stat.ML"],
        "title_html": render(title),
        "abstract_html": render(abstract, links=True),
        "submitted_at": datetime(2026, 3, 11, 9, tzinfo=UTC) + timedelta(minutes=number),
        "updated_at": datetime(2026, 3, 11, 9, tzinfo=UTC) + timedelta(minutes=number),
    }
    made = Paper.objects.create(**(defaults | fields))
    PaperVersion.objects.create(
        paper=made, number=made.version, title=title, abstract=abstract, announced_on=DAY
    )
    return made


def moment(day: date, hour: int, minute: int = 0) -> datetime:
    """A time of that day, in UTC."""
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


def make_listing(category: str = "cs.LG", day: date = DAY, **fields: Any) -> Listing:
    """The audit row of one category's batch."""
    polled = moment(day, 6, 4)
    defaults = {
        "state": Listing.State.COMPLETE,
        "source": Listing.Source.RSS,
        "counts": {"new": 120, "cross": 41, "replace": 66, "replace-cross": 12},
        "polls": 1,
        "polled_at": polled,
        "changed_at": polled,
    }
    return Listing.objects.create(category=category, date=day, **(defaults | fields))


def make_profile(slug: str = "site", **fields: Any) -> Profile:
    """A profile; the site's own unless told otherwise."""
    defaults = {
        "name": "Assay",
        "is_site": slug == "site",
        "categories": CATEGORIES,
        "keywords": [{"keyword": k, "weight": 1.0, "title_bonus": 0.5} for k, _ in KEYWORDS],
        "announce_types": ["new"],
    }
    return Profile.objects.create(slug=slug, **(defaults | fields))


def make_digest(
    profile: Profile, papers: Sequence[Paper], day: date = DAY, **fields: Any
) -> Digest:
    """A digest of these papers in this order, matches marked in the text."""
    listings = {listing.category: listing for listing in Listing.objects.filter(date=day)}
    digest = Digest.objects.create(
        profile=profile,
        date=day,
        **(
            {
                "considered": 412,
                "matched": len(papers),
                "fingerprint": sha256(f"{profile.slug} {day} {len(papers)}".encode()).hexdigest(),
                "changed_at": moment(day, 6, 10),
            }
            | fields
        ),
    )
    entries = []
    for rank, paper in enumerate(papers, start=1):
        matches = _matches(paper)
        entries.append(
            DigestEntry(
                digest=digest,
                paper=paper,
                rank=rank,
                score=sum(m["points"] for m in matches),
                announce_type=AnnounceType.CROSS if rank % 7 == 0 else AnnounceType.NEW,
                version=paper.version,
                matches=matches,
                changed_at=digest.changed_at,
            )
        )
        listing = listings.get(paper.primary_category)
        if listing:
            Announcement.objects.get_or_create(
                listing=listing, paper=paper, defaults={"type": "new", "version": paper.version}
            )
    DigestEntry.objects.bulk_create(entries)
    return digest


def make_reader(name: str = "reader") -> Any:
    """A reader who can sign in."""
    return get_user_model().objects.create_user(name)


def make_day(size: int = 30, day: date = DAY, first: int = 1, **fields: Any) -> Digest:
    """A whole day of the site's profile: listings, papers and the digest."""
    profile = Profile.objects.filter(is_site=True).first() or make_profile()
    for category in CATEGORIES:
        make_listing(category, day)
    papers = [make_paper(number) for number in range(first, first + size)]
    papers.sort(key=lambda paper: -sum(match["points"] for match in _matches(paper)))
    return make_digest(profile, papers, day, **fields)


def _matches(paper: Paper) -> list[dict[str, Any]]:
    found = []
    for keyword, _ in KEYWORDS:
        where = [
            place
            for place, text in (("title", paper.title), ("abstract", paper.abstract))
            if keyword.lower() in text.lower()
        ]
        if where:
            points = 1.5 if "title" in where else 1.0
            found.append({"keyword": keyword, "where": where, "points": points})
    return found


def summarise(paper: Paper, language: str = "en", **facts: Any) -> Summary:
    """A finished summary of a paper."""
    given = {"gist": "It is sparse.", "gist_html": "It is <i>sparse</i>.", "model": "m"} | facts
    return Summary.objects.create(
        paper=paper,
        version=paper.version,
        prompt_version="v3",
        language=language,
        state=Summary.State.DONE,
        finished_at=timezone.now(),
        **given,
    )
