"""The sentence encoder: its vectors, where its weights come from, and what orders by them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import date
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.factories import make_paper
from tests.processes import PATIENCE
from webapp.digests.daily import URGENT, ask_for
from webapp.digests.models import DayToBuild
from webapp.learning import encoder, vector_index, vectors
from webapp.learning.minilm import Encoder
from webapp.learning.models import PaperVector
from webapp.papers.models import Paper, PaperVersion
from webapp.papers.search import search
from workers.site import tasks

pytestmark = pytest.mark.django_db
TEXTS = ["Reading lips with diffusion", "A recipe for rice, boiled slowly and eaten late", "x"]


@pytest.fixture
def small_bert(tmp_path: Path) -> Path:
    """A tiny encoder of BERT's architecture with random weights, as transformers writes it."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens = Tokenizer(
        models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokens.normalizer = normalizers.BertNormalizer()
    tokens.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokens.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokens.save(str(tmp_path / "tokenizer.json"))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    transformers.BertModel(config, add_pooling_layer=False).eval().save_pretrained(tmp_path)
    return tmp_path


def test_the_vectors_are_those_of_transformers(small_bert: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(small_bert, add_pooling_layer=False).eval()
    mine = Encoder(small_bert)
    vectors = mine.encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = torch.tensor([mine.tokenizer.encode(text).ids])
        with torch.no_grad():
            mean = model(input_ids=ids).last_hidden_state[0].mean(dim=0)
        assert np.allclose(vector, (mean / mean.norm()).numpy(), atol=2e-6)


def test_another_architecture_is_refused(small_bert: Path) -> None:
    config = json.loads((small_bert / "config.json").read_text())
    (small_bert / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    with pytest.raises(ValueError, match="BERT"):
        Encoder(small_bert)


def test_a_byte_keeps_the_cosine() -> None:
    chance = np.random.default_rng(0)
    for _ in range(20):
        one, other = chance.normal(size=(2, 384))
        exact = float(one @ other / sqrt(one @ one * (other @ other)))
        packed = encoder.quantized(other.tolist())
        (cosine,) = vectors.cosines_with(encoder.quantized(one.tolist()), {1: packed}).values()
        assert abs(cosine - exact) < 0.01
    assert vectors.cosines_with(b"\x01", {1: b"\x01\x02"}) == {}  # of another encoder


@pytest.fixture
def server(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """An OpenAI-compatible server whose vectors tell texts with "lip" from others."""

    def embeddings(request: Request) -> Response:
        asked = request.get_json()
        assert (asked["model"], request.headers["Authorization"]) == ("tiny", "Bearer k")
        rows = [
            {"index": n, "embedding": [1.0, 0.1] if "lip" in text.lower() else [0.1, 1.0]}
            for n, text in enumerate(asked["input"])
        ]
        return Response(json.dumps({"data": rows[::-1]}), content_type="application/json")

    httpserver.expect_request("/v1/embeddings").respond_with_handler(embeddings)
    monkeypatch.setenv("ASSAY_ENCODER", "tiny")
    monkeypatch.setenv("ASSAY_ENCODER_URL", httpserver.url_for("/v1"))
    monkeypatch.setenv("ASSAY_ENCODER_KEY", "k")
    monkeypatch.setattr(encoder, "_silent_until", 0.0)
    encoder.read.cache_clear()
    encoder._encode_question.cache_clear()
    yield httpserver
    monkeypatch.undo()
    encoder.read.cache_clear()


QUESTION = "how are lip movements turned into words"


def found() -> list[str]:
    return [paper.title for paper in search(QUESTION).papers]


@pytest.fixture
def papers() -> list[Paper]:
    texts = (
        ("Movements turned into words", "Words of movements."),
        ("Lip reading", "Words."),
        ("Turned words", "Into words, movements."),
    )
    return [make_paper(n, title=t, abstract=a) for n, (t, a) in enumerate(texts, 1)]


def test_papers_near_in_meaning_are_found_once_all_have_vectors(
    papers: list[Paper], server: HTTPServer
) -> None:
    far = make_paper(9, title="Lipids", abstract="Nothing of the question.")
    assert found()[0] == "Movements turned into words"
    assert far.title not in found()
    vectors.store(papers)
    assert found()[0] == "Movements turned into words"  # half an index does not order
    assert vector_index.progress() == (3, 4)
    assert vectors.fill(PATIENCE) == 1
    assert vector_index.progress() == (4, 4)
    assert far.title in found()  # no word of the question is in it
    assert search(QUESTION).by_meaning


def test_what_else_is_asked_holds_for_papers_near_in_meaning(
    papers: list[Paper], server: HTTPServer
) -> None:
    vectors.fill(PATIENCE)
    assert "Lip reading" in found()
    assert search(f"{QUESTION} -title:lip").papers
    assert "Lip reading" not in [p.title for p in search(f"{QUESTION} -title:lip").papers]
    assert not search(f"{QUESTION} cat:hep-th").by_meaning
    assert not search(QUESTION, order="newest").by_meaning


def test_a_search_by_meaning_ends_where_papers_are_no_longer_near(db: None) -> None:
    """The cosines of any two texts are large with one encoder and small with another."""
    chance = np.random.default_rng(0)
    topics = chance.normal(size=(4, 24))
    for common in (0.0, 3.0):  # times the direction that all vectors share
        shared = np.zeros(24)
        shared[0] = 4 * common
        Paper.objects.all().delete()
        for number in range(80):
            own = topics[number % 4] * 2 + chance.normal(size=24) / 2 + shared
            PaperVector.objects.create(
                paper=make_paper(number + 1), encoder="e", version=1, values=encoder.quantized(own)
            )
        vector_index._index.cache_clear()
        index = vector_index._index("e", ())
        assert index is not None
        of_topic = [paper.pk for paper in Paper.objects.order_by("pk")][1::4]
        asked = encoder.quantized(topics[1] * 2 + shared)
        assert sorted(index.nearest(asked, 100)) == of_topic
        assert index.nearest(asked, 5) == index.nearest(asked, 100)[:5]
        away = np.zeros(24)
        away[1:] = np.linalg.svd(topics[:, 1:])[2][-1]  # of none of the topics
        assert index.nearest(encoder.quantized(away), 100) == []
    vector_index._index.cache_clear()


def test_the_nearest_are_those_of_the_largest_cosines() -> None:
    chance = np.random.default_rng(0)
    values = chance.integers(-127, 128, (20_000, 24), np.int8)
    lengths = np.linalg.norm(values.astype(float), axis=1).astype(np.float32)
    index = vector_index.VectorIndex(np.arange(20_000), values, lengths, -1.0)
    asked = values[17]
    cosines = values.astype(float) @ asked.astype(float) / lengths
    assert index.nearest(asked.tobytes(), 10) == np.argsort(-cosines)[:10].tolist()
    assert index.nearest(b"12", 10) == []


def test_a_server_that_fails_costs_one_question_and_keeps_the_order_of_words(
    papers: list[Paper], server: HTTPServer
) -> None:
    vectors.fill(PATIENCE)
    server.clear()
    server.expect_request("/v1/embeddings").respond_with_data("no", status=500)
    assert found() == found()
    assert found()[0] == "Movements turned into words"
    assert len(server.log) == 1


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"data": []}', '{"data": [{"index": 0, "embedding": ["x"]}]}', "<"]
)
def test_an_answer_that_is_none_is_an_error(server: HTTPServer, body: str) -> None:
    server.clear()
    server.expect_request("/v1/embeddings").respond_with_data(body)
    with pytest.raises(encoder.EncoderError):
        encoder.encode(["a text"])


def test_vectors_make_way_for_a_build(
    papers: list[Paper], server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made at the lowest priority, and not while a build waits for the same queue."""
    monkeypatch.setattr(vectors, "BATCH", 1)
    encode, store, nice = encoder.encode, vectors.store, list[int]()

    def noticed(texts: list[str]) -> list[bytes]:
        nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return encode(texts)

    def interrupted(batch: list[Paper]) -> None:
        store(batch)
        if len(nice) == 2:
            ask_for([date(2026, 3, 2)])

    monkeypatch.setattr(encoder, "encode", noticed)
    monkeypatch.setattr(vectors, "store", interrupted)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    tasks.make_vectors()
    assert nice == [19, 19]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    tasks.make_vectors()
    assert PaperVector.objects.count() == 2
    DayToBuild.objects.update(asked_at=timezone.now() - URGENT)  # it fails for long
    tasks.make_vectors()
    assert PaperVector.objects.count() == len(papers) == 3


def test_every_tenth_of_a_backlog_of_vectors_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "assay.news")
    for made, done in ((50, 199), (2, 201), (90, 291), (709, 1_000)):
        tasks._say_share(made, done, 1_000)
    assert caplog.messages == [
        "Search by meaning knows 201 of 1,000 papers",
        "Search by meaning knows 1,000 of 1,000 papers",
    ]


def test_vectors_are_made_once_for_new_papers_old_ones_and_new_versions(
    papers: list[Paper], server: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "BATCH", 1)
    assert vectors.fill(0.0) == 0
    assert vectors.fill(PATIENCE) == 3
    assert vectors.fill(PATIENCE) == 0
    make_paper(9)
    assert vectors.fill(PATIENCE) == 1
    Paper.objects.filter(pk=papers[0].pk).update(version=2, title="About lips")
    PaperVersion.objects.create(paper=papers[0], number=2, title="About lips", abstract="")
    before = bytes(PaperVector.objects.get(paper=papers[0]).values)
    assert vectors.fill(PATIENCE) == 1
    assert bytes(PaperVector.objects.get(paper=papers[0]).values) != before
    monkeypatch.setenv("ASSAY_ENCODER", "another")
    encoder.read.cache_clear()
    assert vectors.stored_vectors([papers[0].pk]) == {}


def test_without_an_encoder_nothing_is_made(
    papers: list[Paper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ENCODER", "off")
    encoder.read.cache_clear()
    assert (encoder.name(), vectors.fill(PATIENCE), encoder.encode_question("x")) == ("", 0, None)
    with pytest.raises(encoder.EncoderError):
        encoder.encode(["x"])
    encoder.read.cache_clear()


@pytest.mark.django_db(transaction=True)
def test_a_paper_that_goes_while_it_is_read_has_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    stays, goes = make_paper(1), make_paper(2)

    def encode(texts: list[str]) -> list[bytes]:
        Paper.objects.filter(pk=goes.pk).delete()  # real papers replace the sample
        return [bytes(4) for _ in texts]

    monkeypatch.setattr(encoder, "name", lambda: "slow")
    monkeypatch.setattr(encoder, "encode", encode)
    vectors.store([stays, goes])
    assert list(PaperVector.objects.values_list("paper", flat=True)) == [stays.pk]
