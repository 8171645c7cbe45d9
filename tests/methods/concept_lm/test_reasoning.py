"""Reasoning without words: the toy's depth, the loss by hand, what each way may read."""

import math

import pytest
import torch

from methods import registry
from methods.concept_lm import bench_reasoning
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.reasoning import ONE_BY_ONE, WAYS, Reasoner
from methods.concept_lm.spec import ReasoningParams
from methods.concept_lm.synthetic import Hops
from methods.context import Context
from methods.errors import InputError
from methods.kit.seeds import seeded

TASK = Hops(depth=4, chains=3, dead=2)


def model_of(way, steps=3, task=TASK, layers=1):
    config = tiny_config(vocab=task.words, d=32, layers=layers, d_ff=64, heads=2, kv_heads=1)
    return Reasoner(load_base(config), way, steps, task.pause).eval()


def led(question, start):
    """The names that the edges of one question lead to from a name."""
    return {int(b) - TASK.nodes for a, b in question[:-1] if int(a) == start}


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_a_goal_is_reached_in_so_many_hops_and_not_in_fewer(hops):
    """Followed edge by edge, dead ends too, in the question as it is asked."""
    with seeded(1):
        questions, walks = TASK.sample(8, hops)
    for question, walk in zip(questions, walks.tolist(), strict=True):
        goals = {int(a) for a, b in question[:-1] if int(b) - TASK.nodes == int(a)}
        assert len(goals) == TASK.chains
        here = {int(question[-1, 0])}
        for hop in range(1, hops + 1):
            here = set().union(*(led(question, node) for node in here))
            assert walk[hop - 1] in here
            assert (here & goals == {walk[-1]}) is (hop == hops)
        assert walk[hops - 1 :] == [walk[-1]] * (TASK.depth - hops + 1)
        assert int(question[-1, 1]) == 2 * TASK.nodes
        names = {int(a) for a, _ in question[:-1]} | {int(b) - TASK.nodes for _, b in question[:-1]}
        assert names == set(range(TASK.nodes))


def test_questions_of_any_depth_are_asked_equally_often_and_under_new_names():
    with seeded(2):
        questions, walks = TASK.sample(4000)
    depth = 1 + (walks != walks[:, -1:]).sum(1)
    assert (torch.bincount(depth, minlength=5)[1:] / 4000).tolist() == pytest.approx(
        [0.25] * 4, abs=0.03
    )
    assert torch.bincount(walks[:, -1], minlength=TASK.nodes).min() > 50
    assert len({tuple(question[0].tolist()) for question in questions[:200]}) > 150


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps", [0, 2, 3])
def test_the_loss_is_the_cross_entropy_of_the_words_no_step_stands_for(way, steps):
    """All words alike: ln V each. The right ones three times as likely as each other: by hand."""
    model = model_of(way)
    with torch.no_grad():
        model.base.model.norm.weight.zero_()  # so that nothing is known
    with seeded(0):
        question, walk = TASK.sample(4)
    assert float(model.loss(question, walk, steps).detach()) == pytest.approx(math.log(TASK.words))
    model.base.lm_head = Say(walk[:, steps:], math.log(3))
    sure = math.log(TASK.words - 1 + 3) - math.log(3)
    assert float(model.loss(question, walk, steps)) == pytest.approx(sure)
    model.base.lm_head = Say(walk[:, steps:], 100.0)
    assert float(model.loss(question, walk, steps)) == pytest.approx(0.0, abs=1e-6)


class Say(torch.nn.Module):
    """In the place of the map to words: these words, so much likelier than any other."""

    def __init__(self, words, at):
        super().__init__()
        self.logits = at * torch.nn.functional.one_hot(words, TASK.words).float()

    def forward(self, h):
        """Of a step that is read out on the way nothing is asked."""
        asked = h.shape[1] == self.logits.shape[1]
        return self.logits if asked else torch.zeros(*h.shape[:2], TASK.words)


def test_one_more_word_is_left_out_at_a_time_and_half_of_the_training_is_all_steps():
    model = model_of("thoughts")
    assert [model.stage(i / 12) for i in range(12)] == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3]
    assert {model_of("words").stage(i / 12) for i in range(12)} == {0}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_step_gives_back_to_its_state(way):
    """The answer's gradient reaches the question's last state through steps, where one is read."""
    model, seen = model_of(way, steps=2), []
    with seeded(0):
        question, walk = TASK.sample(2)

    def change(h):
        seen.append(h)
        return h

    logits = model(question, walk[:, :0], 2, change)
    assert len(seen) == (2 if way in ONE_BY_ONE else 0)
    grads = torch.autograd.grad(logits.sum(), seen) if seen else []
    assert all(float(grad.abs().max()) > 0 for grad in grads)


def test_the_states_of_another_question_are_those_of_the_next_row():
    h = torch.arange(3.0)[:, None, None]
    assert bench_reasoning.another(h).flatten().tolist() == [2, 0, 1]


def test_all_ways_begin_with_the_same_weights_and_read_the_same_questions(monkeypatch):
    params = ReasoningParams(hops=2, steps=2, rows=2, layers=1)
    read = {}
    loss = Reasoner.loss

    def noted(self, question, walk, steps):
        read.setdefault(self.way, []).append((question, walk))
        return loss(self, question, walk, steps)

    monkeypatch.setattr(Reasoner, "loss", noted)
    first = {}
    for way in WAYS:
        model = bench_reasoning.make(way, params, 5, "cpu")
        first[way] = model.base.model.layers[-1].mlp.up_proj.weight.clone()
        bench_reasoning.train(model, params, 5, lambda *_: None)
    assert all(torch.equal(first["none"], weight) for weight in first.values())
    for batches in read.values():
        for (question, walk), (same, path) in zip(batches, read["none"], strict=True):
            assert torch.equal(question, same)
            assert torch.equal(walk, path)
    assert not torch.equal(read["none"][0][0], read["none"][1][0])


def test_the_benchmark_shows_right_answers_by_depth_cost_and_state(monkeypatch):
    """Words are always right, others where a question is one hop deep, and half with no step."""

    def right(model, question, walk, **how):
        deep = bool((walk[:, 0] != walk[:, -1]).any())
        return 100.0 if model.way == "words" else 50.0 if "steps" in how else 10.0 if deep else 80.0

    monkeypatch.setattr(bench_reasoning, "train", lambda *_: None)
    monkeypatch.setattr(bench_reasoning, "right", right)
    _, benchmark = registry.find("concept_lm.reasoning")
    ctx = Context("cpu", 0, lambda event: None, repeated=True)
    bench_reasoning.reasoning(ctx, benchmark.resolve("smoke", {"seeds": 3}))
    series = {shown.name: shown for shown in ctx.release(partial=False)}
    depth = {(p.variant, p.x): p for p in series["depth"].points}
    assert set(depth) == {(way, x) for way in WAYS for x in (1.0, 2.0)}
    assert depth["thoughts", 2.0].estimate == 10
    assert depth["words", 2.0].ratio.value == pytest.approx(10)
    assert depth["words", 2.0].ratio.verdict == "better"
    (chance,) = series["depth"].limits
    assert [y for _, y in chance.points] == pytest.approx([100 / 3] * 2)
    cost = {p.variant: p for p in series["cost"].points}
    assert cost["thoughts"].x == cost["pauses"].x < cost["whole"].x == cost["deep"].x
    assert cost["none"].x < cost["looped"].x < cost["pauses"].x < cost["words"].x < cost["soft"].x
    assert cost["words"].ratio.value == pytest.approx(10)
    carried = {(p.variant, p.x): p.estimate for p in series["carried"].points}
    assert {way for way, _ in carried} == set(ONE_BY_ONE)
    assert carried["thoughts", "none"] == 50
    assert carried["thoughts", "as trained"] == carried["thoughts", "another question's"] == 10


def test_a_base_with_too_few_tokens_is_refused(tmp_path):
    load_base(tiny_config(vocab=9, d=32, layers=1, d_ff=32, heads=2, kv_heads=1)).save_pretrained(
        tmp_path
    )
    with pytest.raises(InputError, match="the base has 9 tokens, a graph 32"):
        bench_reasoning.make("none", ReasoningParams(model=str(tmp_path)), 0, "cpu")
