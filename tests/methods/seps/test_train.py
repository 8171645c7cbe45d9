"""Scenes, training, checkpoints, recall, and the two benchmarks' smoke presets."""

import xml.etree.ElementTree as ET
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from methods import registry
from methods.errors import InputError
from methods.kit import training as kit
from methods.kit.checkpoint import Checkpoint, CheckpointError
from methods.protocol import Artefact, Failed, Series
from methods.seps import toy
from methods.seps.config import SepsConfig
from methods.seps.model import CANDIDATES, candidate
from methods.seps.spec import METHOD
from methods.seps.train import (
    Matcher,
    Plan,
    alignment_loss,
    drawn,
    folds,
    ratio_loss,
    recall,
    teach,
)  # fmt: skip
from methods.seps.train import train as train_drawn
from tests.methods.running import run_here

BASE = SepsConfig(dim=32, patches=64)


@pytest.fixture(scope="module")
def taught():
    return teach(32, 1, seed=0, batch=4)


def train(made, plan, **kwargs):
    return train_drawn(made, plan, drawn(plan), **kwargs)


def matcher(taught, name="seps_sparse", base=BASE):
    torch.manual_seed(0)
    return Matcher(*deepcopy(taught), candidate(name, base))


def weights(made):
    return torch.cat([p.detach().flatten() for p in made.parameters()])


def test_scenes_are_what_their_captions_say():
    batch = toy.draw(40, 7)
    assert torch.equal(batch.images, toy.draw(40, 7).images)
    assert not torch.equal(batch.images, toy.draw(40, 8).images)
    for b in range(40):
        dense = toy.caption_text(batch.dense[b]).split()
        assert len(dense) == toy.DENSE_WORDS
        for o in range(toy.OBJECTS):
            size, colour, shape, _, row, column = dense[6 * o : 6 * o + 6]
            y, x = 2 * toy.ROWS.index(row), 2 * toy.COLUMNS.index(column)
            labels = batch.labels[b].view(8, 8, 3)[y : y + 2, x : x + 2].reshape(4, 3)
            wanted = (toy.SIZES.index(size), toy.COLOURS.index(colour), toy.SHAPES.index(shape))
            assert labels.tolist() == [list(wanted)] * 4
            inked = toy.stencils()[wanted[0], wanted[2]]
            box = batch.images[b, :, 4 * y : 4 * y + 8, 4 * x : 4 * x + 8]
            tone = toy.PALETTE[wanted[1]]
            assert float((box[:, inked].mean(1) - tone).abs().max()) < 0.1
        assert set(toy.caption_text(batch.sparse[b]).split()) <= set(dense) | set(toy.RELATIONS)
    assert toy.relation(0, 3) == "left-of"
    assert toy.relation(12, 1) == "below"


def test_resuming_changes_nothing(tmp_path, taught):
    whole, parts = matcher(taught), matcher(taught)
    train(whole, Plan(4, batch=4))
    kept = Checkpoint(tmp_path / "run.pt", every=2)

    def interrupt(step, history):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parts, Plan(4, batch=4), checkpoint=kept, on_step=interrupt)
    again = matcher(taught)
    assert len(train(again, Plan(4, batch=4), checkpoint=kept).loss) == 4
    assert torch.equal(weights(whole), weights(again))


def test_checkpoints_of_another_run(tmp_path, taught):
    path = tmp_path / "run.pt"
    train(matcher(taught), Plan(1, batch=4), checkpoint=Checkpoint(path))
    other = matcher(taught, base=SepsConfig(dim=32, patches=64, keep=0.25))
    with pytest.raises(CheckpointError, match=r"another config: keep 0.5, now 0.25"):
        train(other, Plan(1, batch=4), checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError, match=r"another plan: rate 0\.001, now 0\.002"):
        train(matcher(taught), Plan(1, 0.002, batch=4), checkpoint=Checkpoint(path))
    state = torch.load(path)
    state["parts"]["module"]["slimmer.scale"] = torch.ones(2)
    torch.save(state, path)
    with pytest.raises(CheckpointError, match=r"another shape: slimmer.scale is \(2,\) there"):
        train(matcher(taught), Plan(1, batch=4), checkpoint=Checkpoint(path))


@pytest.mark.parametrize(
    "values", [{"steps": 0}, {"steps": 1, "batch": 1}, {"steps": 1, "rate": float("nan")}]
)
def test_bad_plans(values):
    with pytest.raises(InputError, match=f"{list(values)[-1]}: "):
        Plan(**values)


def test_scenes_are_of_their_seed_and_step():
    draws = [drawn(Plan(9, batch=2, seed=seed))(step) for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(batch.images.flatten().tolist()) for batch in draws}) == 4


@torch.no_grad()
def test_the_query_is_the_caption_and_labels_are_those_of_their_kind(taught):
    batch = toy.draw(3, 0)
    assert torch.equal(matcher(taught)._queries(batch)[1].real, batch.sparse != 0)
    images = deepcopy(taught[0])
    logits = [head(images(batch.images)[:, 1:]).flatten(0, 1) for head in images.label_heads]
    wanted = sum(
        torch.nn.functional.cross_entropy(own, batch.labels[..., kind].flatten())
        for kind, own in enumerate(logits)
    )
    assert float(images.label_loss(batch)) == pytest.approx(float(wanted), rel=1e-5)


def test_what_begins_at_random_learns_faster(taught, monkeypatch):
    made, given = matcher(taught), []
    monkeypatch.setattr(kit, "fit", lambda loss, optimiser, *_, **__: given.append(optimiser))
    train(made, Plan(1, head=7.0))
    speeds = {
        p: group.get("speed", 1.0) for group in given[0].param_groups for p in group["params"]
    }
    assert {speeds[p] for p in made.slimmer.parameters()} == {7.0}
    assert {speeds[p] for p in (*made.images.parameters(), *made.texts.parameters())} == {1.0}
    assert {group["weight_decay"] for group in given[0].param_groups} == {0.01}


@torch.no_grad()
def test_padding_changes_no_caption_and_judging_draws_nothing(taught):
    made, batch = matcher(taught).train(), toy.draw(6, 0)
    padded = torch.nn.functional.pad(batch.sparse, (0, 3))
    before, after = (made.texts(ids).words for ids in (batch.sparse, padded))
    real = batch.sparse != 0
    assert torch.allclose(before[real], after[:, : real.shape[1]][real], atol=1e-5)
    torch.manual_seed(0)
    assert made.judge(batch) == made.judge(batch)
    assert not made.training


@torch.no_grad()
def test_training_takes_no_sibling_for_a_negative(taught):
    """Four pairs of two images: the loss is that of the similarities with these owners."""
    made, owners = matcher(taught).eval(), torch.tensor([0, 0, 1, 1])
    batch = replace(toy.draw(4, 0), owners=owners)
    output, config = made(batch), made.slimmer.config
    ratio = config.ratio_weight * ratio_loss(output.masks, config.keep, config.lam)
    wanted, all_negatives = (
        float(alignment_loss(output.similarity, config.margin, owners=whose) + ratio)
        for whose in (owners, None)
    )
    assert float(made.loss(batch, hardest=1.0)) == pytest.approx(wanted)
    assert wanted != pytest.approx(all_negatives, rel=1e-3)


def test_the_hardest_negatives_count_ever_more():
    plan = Plan(8, hardest_after=0.5)
    assert [plan.hardest_at(step) for step in range(8)] == [0, 0, 0, 0, 0.25, 0.5, 0.75, 1]
    assert Plan(4, hardest_after=0).hardest_at(0) == 0.25
    assert [Plan(3).hardest_at(step) for step in range(3)] == [0, 0, 0]


def test_a_loss_that_is_no_number(taught):
    made = matcher(taught)
    made.loss = lambda batch, hardest: torch.tensor(float("nan"), requires_grad=True)
    with pytest.raises(InputError, match="the loss is nan at step 0"):
        train(made, Plan(1, batch=4))


def test_recall_counts_ranks():
    perfect = recall(torch.eye(20))
    assert perfect.total == 600
    assert recall(torch.zeros(20, 20)).total == 0  # what tells nothing apart finds nothing
    S = torch.eye(20)
    S[0, 1] = 2.0  # caption 0 likes image 1 better, image 1 likes caption 0 better
    assert recall(S).to_image == (95.0, 100.0, 100.0)
    assert recall(S).to_text == (95.0, 100.0, 100.0)
    with pytest.raises(InputError, match="similarities must be finite"):
        recall(S / 0)


def test_recall_knows_captions_from_images():
    """Three captions (rows), three images: every image finds its caption, not the reverse."""
    S = torch.tensor([[3.0, 4.0, 5.0], [0.0, 6.0, 7.0], [0.0, 0.0, 8.0]])
    found = recall(S)
    # image to text reads columns: 3 > 0, 0; 6 > 4, 0; 8 > 7, 5. Text to image reads rows.
    assert found.to_text[0] == pytest.approx(100)
    assert found.to_image[0] == pytest.approx(100 / 3)


def test_five_captions_an_image():
    """Two images with two captions each: an image is found by its best, ties are lost."""
    owners = torch.tensor([0, 0, 1, 1])
    S = torch.tensor([[9.0, 0.0], [1.0, 2.0], [3.0, 3.0], [0.0, 8.0]])
    found = recall(S, owners)
    assert found.to_text[0] == 100  # 9 and 8 are the best of their columns
    assert found.to_image[0] == 50  # captions 1 and 2 prefer the other image, or do not tell
    S[2, 0] = 9.0
    assert recall(S, owners).to_text[0] == 50  # a foreign caption as good as image 0's best
    with pytest.raises(InputError, match="say by `owners` whose"):
        recall(S)
    with pytest.raises(InputError, match="each image some"):
        recall(S, torch.zeros(4, dtype=torch.long))
    with pytest.raises(InputError, match="one of 2 images"):
        recall(S, owners.double())


def test_folds_search_within_themselves():
    """Ten images of one caption each; image 0's caption prefers image 9, which is in fold five."""
    S, owners = torch.eye(10), torch.arange(10)
    S[0, 9] = 2.0
    assert recall(S, owners).to_image[0] == 90
    assert folds(S, owners).to_image[0] == 100
    S[0, 1] = 2.0  # the same fold: one of two captions there is lost
    assert folds(S, owners).to_image[0] == pytest.approx(90)
    with pytest.raises(InputError, match="10 images do not divide into 3"):
        folds(S, owners, 3)


def run(name, **settings):
    code, events = run_here(name, settings)
    assert code == 0, [event for event in events if isinstance(event, Failed)]
    return events


def test_retrieval_measures_every_candidate(tmp_path):
    settings = {"steps": 1, "teach_steps": 1, "batch": 4, "folder": str(tmp_path / "kept")}
    events = run("seps.retrieval", **settings)
    series = {event.name: event for event in events if isinstance(event, Series)}
    assert set(series) == {"rsum", "over_laps", "recall"}
    assert {point.variant for point in series["rsum"].points} == set(CANDIDATES)
    assert len(list((tmp_path / "kept").glob("*-0.pt"))) == len(CANDIDATES)
    (drawn,) = (event for event in events if isinstance(event, Artefact))
    root = ET.fromstring(drawn.data())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "kept; the others fade" in texts
    assert sum(text.isdigit() for text in texts) == 32  # a number on every patch that stays


def test_the_page_s_question_is_answered_over_laps_beside_its_control():
    """By the quick preset's models and encoder, at its smallest."""
    _, benchmark = registry.find("seps.retrieval")
    quick, question = benchmark.presets["quick"], METHOD.question
    settings = {"only": ",".join(quick.only), "encoder": quick.encoder, "steps": 1, "batch": 4}
    events = run("seps.retrieval", **settings)
    series = {event.name: event for event in events if isinstance(event, Series)}
    points = {point.variant: point for point in series[question.series].points}
    assert {"laps", question.variant, question.control} <= points.keys()
    assert series[question.series].baseline == "laps"
    assert points[question.variant].x == question.x
    assert not [event for event in events if isinstance(event, Artefact)]  # images are labels


def test_patches_of_an_exact_encoder_say_what_they_show():
    """Patches of equal labels differ by place and noise alone."""
    scenes = toy.labelled(toy.draw(2, 0))
    encoder = toy.ExactEncoder(16)
    torch.manual_seed(0)
    found = encoder(scenes.images)
    assert found.shape == (2, 1 + toy.GRID**2, 16)
    assert torch.allclose(found[:, 0], found[:, 1:].mean(1), atol=1e-6)
    left = found[:, 1:] - encoder.places
    for kind, table in enumerate(encoder.tables):
        left = left - table.weight[scenes.labels[..., kind]]
    assert float(left.std()) == pytest.approx(0.3, abs=0.02)
    assert not any(p.requires_grad for p in encoder.parameters())


def test_cost_measures_time_and_memory():
    events = run(
        "seps.cost", max_warm_up_s=0, dim=32, patches=16, batches="2,8", words="4,8", keeps="0.5"
    )
    series = {event.name for event in events if isinstance(event, Series)}
    wanted = {
        f"{what}_{over}" for what in ("time", "memory") for over in ("batch", "words", "keep")
    }
    assert series == wanted
