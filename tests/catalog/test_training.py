"""Training of links: labels and operators' decisions become weights that the site applies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog import train_links
from webapp.catalog.evidence import links
from webapp.catalog.models import MethodLink
from webapp.learning import linear, tfidf
from webapp.papers.models import Paper

ABOUT = "We propose a sparse attention in which each query sees few blocks of keys number {n}."
OTHER = "We measure how the weather changes over the sea and the mountains in year {n}."
ZOO = "We watch a kangaroo with a sparse attention span of keys in the zoo, day {n}."


@pytest.fixture(autouse=True)
def _sklearn() -> None:
    """Looked for by these tests alone: it takes a second to import, in every process of xdist."""
    pytest.importorskip("sklearn")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of weights of its own: the committed ones stay as they are."""
    for module in (tfidf, linear, train_links):
        monkeypatch.setattr(module, "DATA", tmp_path)
    for kept in (tfidf.vocabulary, linear.models):
        kept.cache_clear()
    yield tmp_path
    for kept in (tfidf.vocabulary, linear.models):
        kept.cache_clear()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    papers, labels = [], []
    for n in range(20):
        for digit, abstract in ((0, ABOUT), (1, OTHER), (2, ZOO)):
            identifier = f"2512.{n:04}{digit}"
            papers.append({"id": identifier, "title": "A paper", "abstract": abstract.format(n=n)})
            if digit < 2:
                relation = "none" if digit else "about"
                labels.append(
                    {"id": identifier, "method": "sparse_attention"} | {"relation": relation}
                )
    made = tmp_path / "papers.jsonl", tmp_path / "labels.jsonl"
    for path, rows in zip(made, (papers, labels), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def train(files: tuple[Path, Path], **options: bool) -> float:
    """The score that a further paper on kangaroos gets from the weights as they are trained."""
    said = "\n".join(train_links.main(*files, **options))
    linear.models.cache_clear()
    assert "sparse_attention: " in said
    assert "seps: too few" in said
    found = links("2601.00001", "A paper", ZOO.format(n=99))
    return next((one.score for one in found if one.method == "sparse_attention"), 0.0)


@pytest.mark.django_db
def test_what_an_operator_rejects_is_learnt(
    data: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: dict[str, bool] = {}
    learn = train_links._train

    def watched(labelled: Any, papers: Any) -> Any:
        labels.update(labelled["sparse_attention"])
        return learn(labelled, papers)

    monkeypatch.setattr(train_links, "_train", watched)
    before = train(files)
    for n in range(12):
        paper = Paper.objects.create(
            arxiv_id=f"2511.{n:04}7", title="A paper", abstract=ZOO.format(n=n + 50),
            primary_category="cs.LG",
        )  # fmt: skip
        MethodLink.objects.create(
            paper=paper, method="sparse_attention", relation="about", confirmed=False
        )
    assert train(files) == before, "decisions count where they are asked for"
    assert "2511.00007" not in labels
    assert train(files, decisions=True) < before
    assert labels["2511.00007"] is False
    assert {path.name for path in data.glob("*.json")} == {"vocabulary.json", "weights.json"}


def test_what_is_said_again_says_less() -> None:
    model = linear.Linear(0.0, {}, (0.0, 0.0, 1.0, *3 * (0.0,)))
    none, once, twice = (model.with_phrases({}, (said, *3 * (0.0,))) for said in (0, 3, 6))
    assert none == 0
    assert 0 < twice - once < once


def test_methods_share_what_evidence_counts_and_keep_their_own_intercept(data: Path) -> None:
    def examples(among: int) -> list[train_links.LabelledPaper]:
        return [
            train_links.LabelledPaper("A paper", text.format(n=n), (said, *3 * (0.0,)), about)
            for n in range(16)
            for text, said, about in ((ABOUT, 2.0, True), *[(OTHER, n % 2, False)] * among)
        ]

    train_links.write_vocabulary(
        train_links.build_vocabulary((("A paper", ABOUT.format(n=n)) for n in range(20)), [])
    )
    both = {"common": examples(1), "rare": examples(5)}
    models, scores = train_links.fit(both, {"common": [], "rare": [("A paper", ZOO)]})
    common, rare = (models[slug]["combination"] for slug in both)
    assert common[1:] == rare[1:]
    assert common[0] > rare[0], "where fewer papers are about it, it takes more to be about it"
    assert {slug: len(found) for slug, found in scores.items()} == {"common": 32, "rare": 96}
