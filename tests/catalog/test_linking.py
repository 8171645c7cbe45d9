"""Papers are linked to methods by identifiers and by words, and each link says by which."""

from __future__ import annotations

import pytest
from django.utils import timezone

from webapp.catalog import linking
from webapp.catalog.models import MethodLink
from webapp.papers.models import Announcement, Listing, Paper


def paper(title: str = "A title", abstract: str = "Words.", **fields: str) -> Paper:
    return Paper(
        arxiv_id=fields.pop("arxiv_id", "2512.00001"), title=title, abstract=abstract,
        primary_category="cs.LG", **fields,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        (paper(arxiv_id="2004.05150"), "named", "2004.05150"),
        (paper(abstract="We extend Longformer (arXiv:2004.05150v2)."), "cites", "2004.05150"),
        (paper(title="Sliding-Window Attention for Speech"), "words", "Sliding-Window Attention"),
        (paper(abstract="We study block sparse\nattentions."), "words", "block sparse attentions"),
        (paper(abstract="A LONGFORMER for law."), "words", "LONGFORMER"),
    ],
)
def test_a_paper_that_concerns_a_method_is_found_with_its_words(
    given: Paper, reason: str, words: str
) -> None:
    found = {one.method: one for one in linking.concerns(given)}
    assert (found["sparse_attention"].reason, found["sparse_attention"].words) == (reason, words)


@pytest.mark.parametrize(
    "abstract",
    ["Attention is dense here.", "Longformers2 and XBigBirdY.", "See 12004.051501 for more."],
)
def test_words_within_words_and_numbers_link_nothing(abstract: str) -> None:
    assert "sparse_attention" not in {f.method for f in linking.concerns(paper(abstract=abstract))}


@pytest.mark.django_db
def test_linking_follows_the_papers_and_repeats_nothing() -> None:
    kept = paper(abstract="Uses sparse attention.")
    kept.save()
    assert linking.link(Paper.objects.all()) == 1
    assert linking.link(Paper.objects.all()) == 0
    link = MethodLink.objects.get()
    assert (link.method, link.words) == ("sparse_attention", "sparse attention")
    kept.abstract = "Uses dense attention."
    kept.save()
    assert linking.link(Paper.objects.all()) == 1
    assert not MethodLink.objects.exists()


@pytest.mark.django_db
def test_a_tick_links_what_came_since_the_last_one() -> None:
    def announce(arxiv_id: str, day: str) -> None:
        one = paper(abstract="On sparse attention.", arxiv_id=arxiv_id)
        one.save()
        now = timezone.now()
        listing = Listing.objects.create(
            category="cs.LG",
            date=day,
            state="complete",
            source="rss",
            polled_at=now,
            changed_at=now,
        )
        Announcement.objects.create(listing=listing, paper=one, type="new", version=1)

    assert linking.link_new() == 0
    announce("2512.00001", "2025-12-18")
    assert linking.link_new() == 1
    assert linking.link_new() == 0
    announce("2512.00002", "2025-12-19")
    assert linking.link_new() == 1
    assert MethodLink.objects.count() == 2
