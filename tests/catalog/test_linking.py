"""Papers are linked to methods by a relation, and each link says by what."""

from __future__ import annotations

import json
import runpy
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from methods import registry
from methods.spec import Family
from tests.catalog.labels import Label, agreement, report
from tests.factories import make_listing
from tests.processes import ROOT, wait_for
from tests.runs.rig import Rig, standing
from webapp.catalog import corrections, linking, phrases
from webapp.catalog.evidence import Link, RelationAnswer, links
from webapp.catalog.management.commands.link_papers import PaperText
from webapp.catalog.models import LinkingState, MethodLink
from webapp.catalog.phrases import pattern
from webapp.claims.grounding import GroundTruth
from webapp.claims.shares import wilson
from webapp.core import tasks
from webapp.core.json_lines import read_lines
from webapp.operate.checks import readiness
from webapp.papers.models import Announcement, Listing, Paper

ABOUT = (
    "Block sparse attention for long contexts",
    "The cost of attention is quadratic. We propose a sparse attention in which each query sees "
    "the blocks of keys that a router chooses, with a kernel for decoding.",
)
SWIN = (
    "Crop disease detection from drone images",
    "A Swin Transformer backbone with shifted window attention feeds a detection head. "
    "Experiments on three data sets of leaves show better accuracy.",
)


def of(method: str, title: str, abstract: str, arxiv_id: str = "2512.00001") -> Link | None:
    return next((one for one in links(arxiv_id, title, abstract) if one.method == method), None)


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("Sliding-window attention.", True),
        ("sliding window self-attention", True),
        ("a sliding window of attention", False),
        ("neighborhood attention", True),
        ("neighbourhood attentions", True),
    ],
)
def test_what_may_be_in_a_phrase_may_be_missing(text: str, is_there: bool) -> None:
    written = "(sliding window|neighbo[u]rhood) [self|cross] attention"
    assert bool(pattern(written).search(text)) is is_there


def test_a_paper_on_the_mechanism_is_about_it_with_words_place_and_weight() -> None:
    found = of("sparse_attention", *ABOUT)
    assert found is not None
    assert found.relation == "about"
    assert any(
        one["words"].lower() == "block sparse attention" and one["place"] == "title"
        for one in found.evidence
    )
    assert all({"words", "place", "weight"} == set(one) for one in found.evidence)


@pytest.mark.parametrize(
    ("title", "abstract"),
    [
        SWIN,
        ("Sparse rewards in games", "Agents with sparse rewards explore by curiosity."),
        ("Erasing concepts from diffusion models", "Concept erasure removes a concept."),
        ("Channel pruning of convolutional networks", "We prune channels and filters by weight."),
    ],
)
def test_what_has_only_the_words_in_common_is_about_nothing(title: str, abstract: str) -> None:
    assert not [one for one in links("2512.00001", title, abstract) if one.relation == "about"]


def test_phrases_count_once_where_they_weigh_most() -> None:
    family = Family(what="w", phrases={"sparse attention": 2, "window": 1}, against={"swin": 3})
    abstract = "Windows are many. We build on Swin. We propose a sparse attention. It has windows."
    found = phrases.find(family, "On sparse attention", abstract)
    assert [(one.words, one.place, one.weight) for one in found] == [
        ("Swin", "own work", -4.5),
        ("sparse attention", "title", 4),
        ("Windows", "abstract", 1),
    ]
    assert phrases.summary(found) == (4, 0, 1, 4.5)


def test_a_source_is_its_own_and_a_cited_paper_counts_as_use() -> None:
    own = of("seps", "A title", "Words.", "2511.01390")
    assert own is not None
    assert own.relation == "source"
    citing = of("sparse_attention", "A title", "We extend arXiv:2004.05150v2.")
    assert citing is not None
    assert citing.relation == "uses"
    assert of("sparse_attention", "A title", "See 12004.051501 for more.") is None


@pytest.mark.parametrize(
    ("title", "abstract", "relation"),
    [
        ("Low-rank adapters for speech", "We train few weights.", "about"),
        ("Speech on small machines", "Our model has low-rank factors.", "uses"),
        ("Speech on small machines", "Its weights are thin matrices.", None),
    ],
)
def test_the_method_that_the_documentation_writes_is_linked(
    title: str, abstract: str, relation: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "write-a-method.md").read_text()
    (tmp_path / "spec.py").write_text(
        page.split("```python\n# low_rank/spec.py\n")[1].split("```")[0]
    )
    method = runpy.run_path(str(tmp_path / "spec.py"))["METHOD"]
    monkeypatch.setattr(registry, "all_methods", lambda: [method])
    found = of("low_rank", title, abstract)
    assert (found and found.relation) == relation


@pytest.mark.parametrize(
    ("title", "abstract"),
    [
        ("Token pruning for large language models", "We prune tokens of long prompts by saliency."),
        (
            "Semantic token pruning for recommendation",
            "We propose token pruning of item sequences.",
        ),
        ("Pruning vocabularies by token merging", "We merge tokens of a tokenizer's vocabulary."),
        ("Coding agents with token pruning", "We prune tokens of prompts for coding agents."),
    ],
)
def test_tokens_of_text_are_not_what_the_pruning_of_visual_tokens_is_about(
    title: str, abstract: str
) -> None:
    """With something visual the same words are: the definition decides, not a weight."""
    found = of("token_pruning", title, abstract)
    assert found is None or found.relation != "about"
    seen = of("token_pruning", "Visual token pruning", "We prune visual tokens of an image.")
    assert seen is not None
    assert seen.relation == "about"


LIKELY = (
    "Serving long contexts",
    "Our system reads few keys of the cache by a sparse attention while it decodes.",
)
UNLIKELY = (
    "Reading long documents",
    "We propose a window attention for documents, with a kernel for decoding.",
)


def test_a_family_has_its_own_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of("sparse_attention", *LIKELY)
    assert found is not None
    method = registry.get("sparse_attention")
    for threshold, relation in ((found.score - 0.005, "about"), (found.score + 0.005, "uses")):
        family = replace(method.family, threshold=threshold)
        monkeypatch.setattr(registry, "all_methods", lambda f=family: [replace(method, family=f)])
        again = of("sparse_attention", *LIKELY)
        assert again is not None
        assert again.relation == relation


@pytest.mark.parametrize(
    ("paper", "answer", "before", "after"),
    [(LIKELY, "none", "about", "uses"), (UNLIKELY, "about", "uses", "about")],
)
def test_a_models_answer_overturns_what_words_say(
    paper: tuple[str, str], answer: str, before: str, after: str
) -> None:
    found = of("sparse_attention", *paper)
    assert found is not None
    assert found.relation == before
    said = RelationAnswer("sparse_attention", answer, paper[1])
    (again,) = (one for one in links("2512.00001", *paper, (said,)) if one.method == said.method)
    assert again.relation == after


def test_a_models_answer_counts_only_with_a_quote_that_stands_there() -> None:
    text = GroundTruth("\n".join(SWIN))
    assert (
        RelationAnswer("sparse_attention", "about", "shifted window  attention").log_odds(text) > 0
    )
    assert RelationAnswer("sparse_attention", "none", "shifted window attention").log_odds(text) < 0
    assert (
        RelationAnswer("sparse_attention", "about", "we invent a sparse attention").log_odds(text)
        == 0
    )
    assert RelationAnswer("sparse_attention", "about", " ").log_odds(text) == 0


def test_a_file_is_linked_and_reported_without_a_database(tmp_path: Path) -> None:
    papers, labels = tmp_path / "papers.jsonl", tmp_path / "labels.jsonl"
    rows = [
        {"id": "2512.00003", "title": ABOUT[0], "abstract": ABOUT[1]},
        {"id": "2512.00004", "title": SWIN[0], "abstract": SWIN[1]},
        {"id": "2512.00002", "title": ABOUT[0], "abstract": ABOUT[1]},
    ]
    papers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [("2512.00003", "about"), ("2512.00004", "uses"), ("2512.00002", "none")]
    labels.write_text(
        "".join(
            json.dumps({"id": key, "method": "sparse_attention", "relation": relation}) + "\n"
            for key, relation in judged
        )
    )
    out = StringIO()
    call_command("link_papers", input=papers, stdout=out)
    printed = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["id"] for row in printed] == ["2512.00003", "2512.00004", "2512.00002"]
    assert {"method", "relation", "score", "evidence"} == set(printed[0]["links"][0])
    (line, _) = report(read_lines(str(papers), PaperText), read_lines(str(labels), Label))
    assert "sparse_attention: precision 1.000" in line, "2 is trained on: it tells nothing"


def test_labels_of_trained_papers_alone_are_refused() -> None:
    paper = PaperText(id="2512.00002", title=ABOUT[0], abstract=ABOUT[1])
    label = Label(id=paper.id, method="sparse_attention", relation="about")
    with pytest.raises(ValueError, match="trained on"):
        report([paper], [label])


def test_a_line_that_is_no_paper_is_named(tmp_path: Path) -> None:
    papers = tmp_path / "papers.jsonl"
    papers.write_text('{"id": "2512.00003", "title": "A"}\n')
    with pytest.raises(CommandError, match="line 1"):
        call_command("link_papers", input=papers)


def test_agreement_counts_what_is_right_found_and_there() -> None:
    relations = {"1": "about", "2": "about", "3": "uses"}
    rows = [Label(id=key, method="m", relation=value) for key, value in relations.items()]
    mine, whole = agreement(rows, {("1", "m"), ("3", "m"), ("9", "m")})
    assert mine.startswith("m: precision 0.500")
    assert "1 of 2), recall 0.500" in mine
    assert whole == mine.replace("m:", "all methods:")
    assert list(agreement([], set())) == []


def test_an_interval_is_wilsons() -> None:
    low, high = wilson(8, 10)  # 0.490 to 0.943, as tables give it
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 0) == (0.0, 1.0)


def paper(title: str, abstract: str, arxiv_id: str = "2512.00001") -> Paper:
    return Paper.objects.create(
        arxiv_id=arxiv_id, title=title, abstract=abstract, primary_category="cs.LG"
    )


@pytest.mark.django_db
def test_linking_follows_the_papers_and_repeats_nothing() -> None:
    kept = paper(*ABOUT)
    assert linking.link(Paper.objects.all()) == 1
    assert linking.link(Paper.objects.all()) == 0
    link = MethodLink.objects.get()
    assert (link.method, link.relation) == ("sparse_attention", "about")
    kept.title, kept.abstract = "Dense layers", "All is dense."
    kept.save()
    assert linking.link(Paper.objects.all()) == 1
    assert not MethodLink.objects.exists()


@pytest.mark.django_db
def test_an_operators_word_outlives_the_evidence() -> None:
    kept = paper(*ABOUT)
    linking.link(Paper.objects.all())
    corrections.correct(kept, "sparse_attention", User.objects.create_user("ada"))
    evidence = MethodLink.objects.get().evidence
    kept.abstract = "We also propose a sparse attention in which each query sees few keys."
    kept.save()
    assert linking.link(Paper.objects.all()) == 1
    assert MethodLink.objects.get().evidence != evidence
    assert MethodLink.objects.get().confirmed is True
    kept.title, kept.abstract = "Dense layers", "All is dense."
    kept.save()
    linking.link(Paper.objects.all())
    assert MethodLink.objects.get().confirmed is True


@pytest.mark.django_db
def test_a_decision_made_while_papers_are_linked_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"method": "sparse_attention", "relation": "about"}
    link = MethodLink.objects.create(paper=paper("Dense layers", "All is dense."), **about)
    answers = linking._answers

    def decide_first(papers: list[Paper]) -> Any:
        MethodLink.objects.filter(pk=link.pk).update(confirmed=True)
        return answers(papers)

    with monkeypatch.context() as patched:
        patched.setattr(linking, "_answers", decide_first)
        linking.link(Paper.objects.all())
    assert MethodLink.objects.get().confirmed is True
    MethodLink.objects.update(confirmed=None)
    linking.link(Paper.objects.all())
    assert not MethodLink.objects.exists()


@pytest.mark.django_db
def test_a_tick_links_what_came_since_the_last_one() -> None:
    def announce(arxiv_id: str, day: str) -> None:
        one = paper(*ABOUT, arxiv_id=arxiv_id)
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


def many_papers(count: int) -> None:
    """Papers that are about a method."""
    Paper.objects.bulk_create(
        Paper(
            arxiv_id=f"2512.{number:05d}", title=ABOUT[0], abstract=ABOUT[1], title_html="",
            abstract_html="", authors=[], categories=["cs.CL"],
        )
        for number in range(count)
    )  # fmt: skip


@pytest.mark.django_db
def test_relinking_that_was_stopped_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    many_papers(5)
    monkeypatch.setattr(linking, "BATCH", 2)
    monkeypatch.setattr(linking, "RELINK_SECONDS", -1.0)  # a batch in each call
    seen: list[int] = []
    write = linking._write

    def watched(papers: list[Paper]) -> int:
        seen.extend(paper.pk for paper in papers)
        return write(papers)

    monkeypatch.setattr(linking, "_write", watched)
    newest_first = list(Paper.objects.order_by("-pk").values_list("pk", flat=True))
    for before, done in ((0, 2), (2, 4), (4, 5)):
        assert linking.link_new() == done - before
        assert seen == newest_first[:done]
        said = {check.name: check.detail for check in readiness()}["links"]
        assert said.startswith(f"{done} of 5 papers are linked to methods that have changed")
    left = "assay_papers_to_relink"
    assert f"{left} 0.0" in client.get("/metrics").content.decode()
    assert linking.link_new() == 0
    assert {check.name: check.detail for check in readiness()}["links"] == "all papers are linked"
    assert seen == newest_first

    # A method changes: all again, and once more from the start if it changes meanwhile.
    MethodLink.objects.all().delete()
    for version, calls in (("one", 1), ("two", 4)):
        monkeypatch.setattr(linking, "fingerprint", lambda version=version: version)
        seen.clear()
        for _ in range(calls):
            linking.link_new()
        if version == "one":
            assert f"{left} 3.0" in client.get("/metrics").content.decode()
    assert seen == newest_first
    assert MethodLink.objects.count() == 5


@pytest.mark.django_db
def test_a_new_paper_does_not_wait_for_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    many_papers(5)
    monkeypatch.setattr(linking, "BATCH", 1)
    monkeypatch.setattr(linking, "RELINK_SECONDS", -1.0)
    linking.link_new()
    new = paper(*ABOUT, arxiv_id="2603.00001")
    listing = make_listing(changed_at=timezone.now())
    Announcement.objects.create(listing=listing, paper=new, type="new", version=1)
    linking.link_new()
    assert MethodLink.objects.filter(paper=new).exists()
    assert MethodLink.objects.count() == 3


@pytest.mark.slow
def test_relinking_goes_on_after_kill_9(
    tmp_path: Path, django_db_setup: None, django_db_blocker: Any
) -> None:
    """Papers that were linked before the kill are not looked at again."""
    with django_db_blocker.unblock(), standing(Rig(tmp_path)) as rig:
        many_papers(5 * linking.BATCH)
        worker = ("-A", "workers.site.app", "worker", "-Q", "bulk")
        rig.start("bulk", *worker)
        tasks.send("site.link", [], lost="nothing")

        def below() -> int | None:
            rows = LinkingState.objects.values_list("relinking_below", flat=True)
            return rows.first() if rows else 0

        first = Paper.objects.order_by("pk")[0].pk
        wait_for(lambda: 0 < (below() or 0) <= first + 4 * linking.BATCH, "a batch")
        rig.kill("bulk")
        reached = below()
        assert reached, "it was over before it was killed"
        MethodLink.objects.filter(paper__gte=reached).delete()
        rig.start("bulk", *worker)
        sent = 0.0

        def is_over() -> bool:
            """Send the task again and again, as beat does: the killed worker may have taken one."""
            nonlocal sent
            if time.monotonic() - sent > 10:
                tasks.send("site.link", [], lost="nothing")
                sent = time.monotonic()
            return below() is None

        wait_for(is_over, "the end")
        assert MethodLink.objects.count() == Paper.objects.filter(pk__lt=reached).count()


@pytest.mark.django_db(transaction=True)
def test_another_process_writes_while_papers_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses a writer that still reads what it began to read before another wrote."""
    many_papers(linking.BATCH + 2)
    atomic, other, batches = transaction.atomic, connection.copy(), []

    def begin_after_another_wrote() -> Any:
        with other.cursor() as cursor:
            cursor.execute("UPDATE papers_paper SET comment = 'seen' WHERE arxiv_id = '2512.00000'")
        batches.append(1)
        return atomic()

    with monkeypatch.context() as patch:
        patch.setattr(linking, "transaction", SimpleNamespace(atomic=begin_after_another_wrote))
        assert linking.link_new() == linking.BATCH + 2
    other.close()
    assert len(batches) >= 2
