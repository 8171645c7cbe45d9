"""Train and evaluate on folders such as people have, with tiny saved encoders."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import BertConfig, BertModel, ViTModel

from methods.kit.seeds import seeded
from methods.seps import data, practice, pretrained
from methods.seps.config import SepsConfig
from methods.seps.model import candidate
from methods.seps.pairs import Texts
from methods.seps.train import Plan
from methods.seps.train import train as train_matcher
from tests.methods import own_data
from tests.methods.own_data import interrupted
from tests.methods.seps.conftest import SPECIAL, WORDS

README = Path(__file__).parents[3] / "methods/seps/README.md"


def call(folder: Path, encoders: Path, name: str, **changes: object) -> int:
    values = {
        "data": folder / "data", "vision": encoders / "vit", "text": encoders / "bert",
    } | changes  # fmt: skip
    return own_data.call(name, "seps", values)


def train(folder: Path, encoders: Path, **changes: object) -> int:
    values = {
        "out": folder / "out", "dim": 16, "batch": 8, "steps": 4, "every": 2, "judge_every": 2,
        "words": 12, "rate": 1e-3,
    } | changes  # fmt: skip
    return call(folder, encoders, "train", **values)


def best(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "out" / "best.pt")["weights"]


def test_train_resume_and_evaluate(folder, encoders, capsys, monkeypatch):
    assert train(folder, encoders) == 0
    told = capsys.readouterr().out
    assert "40 captions of 8 images, 0 images left out; 4 for validation: rSum" in told
    whole = best(folder)
    for name in ("best.pt", "training.pt"):
        (folder / "out" / name).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(practice, "train_matcher", interrupted(practice.train_matcher, 3))
        assert train(folder, encoders) == 130
    assert train(folder, encoders) == 0
    assert all(torch.equal(whole[name], tensor) for name, tensor in best(folder).items())
    assert train(folder, encoders, steps=3) == 2
    assert "made with another plan: steps 4, now 3" in capsys.readouterr().err
    assert train(folder, encoders, steps=6) == 0  # what has ended goes on, with what it had found
    assert "of 3; best.pt" in capsys.readouterr().out
    assert train(folder, encoders, words=11) == 2
    assert "made with another reading: words 12, now 11" in capsys.readouterr().err
    path = folder / "data" / "f30k" / "train_caps.txt"
    captions = path.read_text()
    path.write_text(captions.replace("dog", "cat"))
    assert train(folder, encoders) == 2
    assert "made with another reading: captions " in capsys.readouterr().err
    path.write_text(captions)
    assert call(folder, encoders, "evaluate", matcher=folder / "out" / "best.pt") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "25 captions of 5 images, 0 left out"
    assert told[1].startswith("all at once: image to text R@1 ")
    assert len(told) == 2


def test_a_swin_with_the_dense_text_of_coco(folder, encoders, capsys):
    """No CLS, no dev split, folds of a fifth, and a warning that queries know their target."""
    (folder / "data" / "f30k").rename(folder / "data" / "coco")
    (folder / "data" / "flickr30k-images").rename(folder / "data" / "coco-images")
    own = folder / "data" / "coco"
    for old, new in (("test_ids.txt", "testall_ids.txt"), ("test_caps.txt", "testall_caps.txt"),
                     ("f30k_test.jsonl", "coco_testall.jsonl"), ("f30k_train.jsonl",
                     "coco_train.jsonl")):  # fmt: skip
        (own / old).rename(own / new)
    (own / "dev_ids.txt").unlink()
    kind = {"dataset": "coco", "vision": encoders / "swin"}
    assert train(folder, encoders, candidate="seps", held_out=2, keep=0.8, **kind) == 0
    assert "30 captions of 6 images, 0 images left out; 2 for" in capsys.readouterr().out
    assert call(folder, encoders, "evaluate", matcher=folder / "out" / "best.pt", **kind) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2].startswith("mean of 5 folds: image to text R@1 100.0")  # each of one image
    assert told[3] == practice.LEAK


def halve(data: Path) -> None:
    """A download that broke off: its head is there, and with it the image's size."""
    path = data / "flickr30k-images/1001.jpg"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda f: (f / "f30k/train_caps.txt").unlink(),
            "f30k/train_caps.txt; caption files are in",
        ),
        (lambda f: (f / "f30k/id_mapping.json").write_text("["), "id_mapping.json is no JSON"),
        (
            lambda f: (f / "f30k/id_mapping.json").write_bytes(b'{"0": "\xff.jpg"}'),
            "id_mapping.json cannot be read",
        ),
        (lambda f: (f / "f30k/id_mapping.json").write_text("{}"), "8 images of f30k/train cannot"),
        (
            lambda f: (f / "f30k/train_caps.txt").write_text("a\nb\n"),
            "8 lines, train_caps.txt 2 captions",
        ),
        (
            lambda f: (f / "f30k/train_caps.txt").write_text("a dog\n\n" + "a cat\n" * 38),
            "caption 2 is empty",
        ),
        (
            lambda f: (f / "f30k/train_ids.txt").write_text("0\n1\n2\n3\n4\n5\n6\n99\n"),
            "image 99 is not in id_mapping.json",
        ),
        (lambda f: (f / "flickr30k-images/1001.jpg").unlink(), "1001.jpg is not there"),
        (lambda f: (f / "flickr30k-images/1001.jpg").write_bytes(b"no"), "is no image that can"),
        (halve, "1001.jpg is no image that can be read"),
        (
            lambda f: (f / "flickr30k-images").rename(f / "images"),
            "flickr30k-images/; caption files",
        ),
        (lambda f: (f.parent / "out").rmdir(), "is no folder; make it first"),
    ],
)
def test_what_is_refused_before_any_work(folder, encoders, spoil, said, capsys):
    spoil(folder / "data")
    assert train(folder, encoders) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "out" / "training.pt").exists()


def test_images_are_left_out_only_when_asked(folder, encoders, capsys):
    (folder / "data/flickr30k-images/1001.jpg").write_bytes(b"no")
    assert train(folder, encoders, skip=True, steps=1) == 0
    assert "35 captions of 7 images, 1 images left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vision": "bert"}, "is of type 'bert'; image encoders are vit, swin"),
        ({"text": "vit"}, "is of type 'vit'; text encoders are bert"),
        ({"vision": "none"}, "microsoft/swin-base-patch4-window7-224"),
        ({"batch": 5}, "with 5 captions an image and 40 in all, 6 to 40 pairs"),
        ({"batch": 64}, "6 to 40 pairs"),
    ],
)
def test_encoders_and_batches_that_do_not_fit(folder, encoders, changes, said, capsys):
    values = {k: encoders / v if isinstance(v, str) else v for k, v in changes.items()}
    assert train(folder, encoders, **values) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"vocab_size": 9}, "has 17 words, its weights 9: they are not of one model"),
        ({"max_position_embeddings": 8}, "up to 12 words; the text encoder reads 8 at most"),
    ],
)
def test_a_text_encoder_that_is_too_small(folder, encoders, size, said, capsys):
    own = shutil.copytree(encoders / "bert", folder / "bert")
    small = {"vocab_size": len(SPECIAL) + len(WORDS), **size}
    BertModel(
        BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, **small)
    ).save_pretrained(own)
    assert train(folder, encoders, text=own) == 2
    assert said in capsys.readouterr().err
    assert not list((folder / "out").iterdir())


@pytest.mark.parametrize(
    ("name", "leaks"), [("seps_image", False), ("open_source", True), ("whole", False)]
)
def test_candidates_search_with_whose_dense_text_they_have(folder, encoders, name, leaks, capsys):
    assert train(folder, encoders, candidate=name, steps=1) == 0
    capsys.readouterr()
    assert call(folder, encoders, "evaluate", matcher=folder / "out" / "best.pt") == 0
    assert (practice.LEAK in capsys.readouterr().out) is leaks


def test_an_epoch_has_every_caption_once_with_its_owner(folder, encoders, monkeypatch):
    vision, text = encoders / "vit", encoders / "bert"
    made = pretrained.VisionEncoder(str(vision), 16)
    base = SepsConfig(dim=16, patches=made.patches, cls=made.cls)
    matcher = practice.Retriever(
        made, pretrained.BertEncoder(str(text), 16), candidate("seps_learnt", base)
    )
    split, _ = data.load(folder / "data", "f30k", "train", dense=False)
    shown = []
    monkeypatch.setattr(practice, "pixels", lambda paths, *_: shown.append(paths) or torch.ones(1))
    draw = practice.batches(matcher, split, Plan(9, batch=8), 12, "cpu")
    drawn = [draw(step) for step in range(5)]
    owners = torch.cat([batch.owners for batch in drawn]).tolist()
    assert sorted(owners) == sorted(split.owners)
    assert [path for paths in shown for path in paths] == [split.images[i] for i in owners]
    assert draw(5).owners.tolist() != drawn[0].owners.tolist()  # another epoch, another order
    assert torch.equal(draw(2).sparse, drawn[2].sparse)


def test_the_test_split_is_never_looked_at(folder, encoders):
    for path in (folder / "data" / "f30k").glob("*test*"):
        path.unlink()
    assert train(folder, encoders, steps=1) == 0


def test_captions_meet_images_in_parts_as_in_one(folder, encoders, monkeypatch):
    """All pairs of a guided model are the same however many captions and images go together."""
    made = pretrained.VisionEncoder(str(encoders / "vit"), 16)
    base = SepsConfig(dim=16, patches=made.patches, cls=made.cls)
    texts = pretrained.BertEncoder(str(encoders / "bert"), 16)
    matcher = practice.Retriever(made, texts, candidate("seps", base))
    split, _ = data.load(folder / "data", "f30k", "test", dense=True)
    whole = practice.similarities(matcher, split, 12, lambda _: None)
    monkeypatch.setattr(practice, "CAPTIONS", 7)
    monkeypatch.setattr(practice, "TOGETHER", 2)
    parts = practice.similarities(matcher, split, 12, lambda _: None)
    assert whole.shape == (25, 5)
    assert torch.allclose(whole, parts, atol=1e-5)


def built(encoders: Path, name: str) -> practice.Retriever:
    """An untrained candidate on the tiny encoders, alike each time."""
    with seeded(0):
        made = pretrained.VisionEncoder(str(encoders / "vit"), 16)
        texts = pretrained.BertEncoder(str(encoders / "bert"), 16)
        base = SepsConfig(dim=16, patches=made.patches, cls=made.cls)
        return practice.Retriever(made, texts, candidate(name, base)).eval()


def test_what_is_new_learns_ten_times_as_fast_as_the_encoders(folder, encoders):
    """The first step of Adam moves a weight with a gradient by the rate: 1e-4, and 1e-3."""
    with seeded(0):
        images = pretrained.VisionEncoder(str(encoders / "vit"), 32)
        texts = pretrained.BertEncoder(str(encoders / "bert"), 32)
        base = SepsConfig(dim=32, patches=images.patches, cls=images.cls)
        matcher = practice.Retriever(images, texts, candidate("seps_learnt", base))
    before = {name: p.detach().clone() for name, p in matcher.named_parameters()}
    split, _ = data.load(folder / "data", "f30k", "train", dense=False)
    plan = Plan(1, 1e-4, warm_up=0, batch=8)
    train_matcher(matcher, plan, practice.batches(matcher, split, plan, 12, "cpu"))
    moved = {name: float((p - before[name]).abs().max()) for name, p in matcher.named_parameters()}
    new = {"images.to_shared", "texts.to_shared", "slimmer"}
    for part, speed in {**dict.fromkeys(new, 10.0), "images.tower": 1.0, "texts.bert": 1.0}.items():
        own = [step for name, step in moved.items() if name.startswith(part + ".")]
        assert max(own) == pytest.approx(speed * 1e-4, rel=0.1), part


@torch.no_grad()
def test_cls_comes_first_and_patches_stand_where_the_tower_has_them(encoders):
    made = pretrained.VisionEncoder(str(encoders / "vit"), 16)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    whole = ViTModel.from_pretrained(encoders / "vit", add_pooling_layer=False).float().eval()
    wanted = whole(images).last_hidden_state
    found = made(images)
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found, wanted.roll(1, 1), atol=1e-2)
    base = SepsConfig(dim=16, patches=made.patches, cls=True, aggregate=1.0)
    model = candidate("seps_learnt", base).eval()
    words = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(1))
    captions = Texts(words, torch.ones(3, 4, dtype=torch.bool))
    S = model.all_pairs(found, captions)
    order = torch.tensor([0, *range(made.patches, 0, -1)])  # CLS stays, the patches turn around
    assert torch.allclose(model.all_pairs(found[:, order], captions), S, atol=1e-5)
    assert not torch.allclose(model.all_pairs(found.roll(1, 1), captions), S, atol=1e-4)


@torch.no_grad()
def test_a_search_draws_nothing_and_leaves_training_as_it_was(folder, encoders):
    """The choice of patches is drawn in training, and captions are padded to other lengths."""
    matcher = built(encoders, "seps_learnt")
    split, _ = data.load(folder / "data", "f30k", "test", dense=False)
    found = [
        practice.similarities(matcher.train(on), split, 12, lambda _: None) for on in (False, True)
    ]
    assert torch.equal(*found)
    assert matcher.training
    matcher.eval()
    short, long = (matcher.texts.ids([text, "dog"], 12) for text in ("cat", "a red dog on grass"))
    words = matcher.texts(short).words[1], matcher.texts(long).words[1]
    size = int((short[1] != matcher.texts.tokenizer.pad_token_id).sum())
    assert torch.allclose(words[0][:size], words[1][:size], atol=1e-5)


def test_what_is_held_out_is_not_trained_on(folder):
    (folder / "data" / "f30k" / "dev_ids.txt").unlink()
    train, dev, _ = data.with_validation(folder / "data", "f30k", 3, dense=False)
    assert (len(train.images), len(dev.images)) == (5, 3)
    assert not set(train.images) & set(dev.images)
    assert not set(train.captions) & set(dev.captions)


def test_each_epoch_has_an_order_of_its_own(folder, encoders):
    matcher = built(encoders, "seps_learnt")
    split, _ = data.load(folder / "data", "f30k", "train", dense=False)
    draw = practice.batches(matcher, split, Plan(9, batch=20), 12, "cpu")
    orders = [[*draw(2 * i).owners.tolist(), *draw(2 * i + 1).owners.tolist()] for i in range(3)]
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("name", ["seps", "seps_image"])
@torch.no_grad()
def test_a_caption_meets_an_image_with_the_dense_text_of_its_owner(folder, encoders, name):
    """Of the caption's own image, or of the image that is looked at: each pair by itself."""
    matcher = built(encoders, name)
    split, _ = data.load(folder / "data", "f30k", "test", dense=True)
    found = practice.similarities(matcher, split, 12, lambda _: None)
    for i, b in ((3, 1), (12, 2), (24, 0)):
        text = split.dense[split.owners[i] if name == "seps" else b]
        one, dense = (matcher.texts(matcher.texts.ids([t], 12)) for t in (split.captions[i], text))
        patches = matcher.images(pretrained.pixels([split.images[b]], matcher.images.side))
        alone = matcher.slimmer.all_pairs(patches, one, dense)
        assert float(found[i, b]) == pytest.approx(float(alone), abs=1e-5)
    other = [t for t in split.dense if t != split.dense[0]]
    assert other, "the dense texts differ, or nothing was seen"


def test_training_reads_the_dense_text_of_the_image_that_is_shown(folder, encoders, monkeypatch):
    matcher = built(encoders, "seps")
    split, _ = data.load(folder / "data", "f30k", "train", dense=True)
    read = []
    right = pretrained.BertEncoder.ids
    monkeypatch.setattr(
        pretrained.BertEncoder,
        "ids",
        lambda self, texts, *rest: (read.append(texts), right(self, texts, *rest))[1],
    )
    batch = practice.batches(matcher, split, Plan(9, batch=8), 12, "cpu")(1)
    owners = batch.owners.tolist()
    captions, dense = read
    assert dense == [split.dense[i] for i in owners]
    assert all(
        text in split.captions[5 * i : 5 * i + 5] for text, i in zip(captions, owners, strict=True)
    )


def test_the_model_that_is_kept_is_the_best_on_validation(folder, encoders, monkeypatch, capsys):
    """Of three looks the second is the best; what is looked at is dev, never train or test."""
    looks, scores = [], iter([100.0, 300.0, 200.0])

    def similarities(matcher, split, words, tell):
        looks.append((split, matcher.slimmer.scale.detach().clone()))
        return torch.zeros(len(split.captions), len(split.images))

    def recall(S, owners):
        assert owners.tolist() == list(looks[-1][0].owners)
        return SimpleNamespace(total=next(scores))

    monkeypatch.setattr(practice, "similarities", similarities)
    monkeypatch.setattr(practice, "recall", recall)
    assert train(folder, encoders, steps=6, judge_every=2) == 0
    assert "rSum 300.0 at validation 2 of 3" in capsys.readouterr().out
    dev, _ = data.load(folder / "data", "f30k", "dev", dense=False)
    assert [split for split, _ in looks] == [dev] * 3
    kept = best(folder)["slimmer.scale"]
    assert [torch.equal(kept, scale) for _, scale in looks] == [False, True, False]


def test_another_model_s_checkpoint_is_refused(folder, encoders, capsys):
    assert train(folder, encoders, steps=1) == 0
    path = folder / "out" / "best.pt"
    assert call(folder, encoders, "evaluate", matcher=path, vision=encoders / "swin") == 2
    assert "best.pt is of another" in capsys.readouterr().err
    state = torch.load(path)
    torch.save({"format": state["format"]}, path)
    assert call(folder, encoders, "evaluate", matcher=path) == 2
    assert "is not what train wrote" in capsys.readouterr().err
    assert call(folder, encoders, "evaluate", matcher=folder / "none.pt") == 2
    assert "give the best.pt that train wrote" in capsys.readouterr().err


def test_the_front_example_runs_as_written(folder, encoders):
    """On encoders in half precision; only the names of weights and of the photo are others."""
    code = README.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    for name, own in (
        ("google/vit-base-patch16-224-in21k", encoders / "vit"),
        ("bert-base-uncased", encoders / "bert"),
        ("photo.jpg", folder / "data/flickr30k-images/1000.jpg"),
    ):
        assert name in code
        code = code.replace(name, str(own))
    ran: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), ran)
    found = ran["found"]
    assert isinstance(found, torch.Tensor)
    assert found.shape == (2, 1)
    assert torch.isfinite(found).all()
