"""Training: the same with and without interruption; clear errors; data and floors."""

import math
from dataclasses import asdict, replace
from itertools import product

import pytest
import torch

from methods.concept_lm import baselines
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.baselines import NAMES, judge, shuffled_codes
from methods.concept_lm.baselines import candidate as one_of
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.flops import concept_token, plain_token
from methods.concept_lm.head import draw
from methods.concept_lm.synthetic import PlanTask
from methods.concept_lm.train import train
from methods.concept_lm.v3.em import Curriculum, EMSettings
from methods.concept_lm.v3.executor import Executor
from methods.concept_lm.v3.monitors import diagnose
from methods.concept_lm.v3.planner import Planner, PlanShape, sequence_mask
from methods.errors import InputError
from methods.kit.checkpoint import Checkpoint, CheckpointError
from methods.kit.corpus import Corpus, folder, stdlib
from methods.kit.seeds import seeded
from methods.kit.training import Plan

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
CONFIG = ConceptConfig(1, 1, 1, n_concepts=16)


def candidate(name="faithful"):
    base = load_base(tiny_config(d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
    return one_of(name, base, CONFIG, stdlib(), 2, 32, 0)


def weights(made):
    return torch.cat([p.detach().flatten() for p in made.model.parameters()])


def test_resuming_changes_nothing(tmp_path):
    whole, parts = candidate(), candidate()
    train(whole, Plan(6))
    kept = Checkpoint(tmp_path / "run.pt", every=2)

    def interrupt(step, _history):
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parts, Plan(6), checkpoint=kept, on_step=interrupt)
    again = candidate()
    history = train(again, Plan(6), checkpoint=kept)
    assert len(history.loss) == 6
    assert torch.equal(weights(whole), weights(again))
    assert torch.equal(whole.model.head.control.null_bias, again.model.head.control.null_bias)


def test_checkpoints_of_another_model(tmp_path):
    path = tmp_path / "run.pt"
    train(candidate(), Plan(1), checkpoint=Checkpoint(path, {"model": asdict(CONFIG)}))
    with pytest.raises(CheckpointError, match=r"another model: .*shallow 1, now 3"):
        train(candidate(), Plan(1), checkpoint=Checkpoint(path, {"model": {"shallow": 3}}))


def test_a_loss_that_is_no_number():
    made = candidate()
    made.training_loss = lambda step: torch.tensor(math.nan, requires_grad=True)
    with pytest.raises(InputError, match="loss is nan at step 0"):
        train(made, Plan(1))


def test_gradients_are_clipped():
    made = candidate()
    history = train(made, Plan(2, clip=1e-9))
    assert all(norm > 1e-6 for norm in history.grad_norm)  # before clipping


@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_trains_and_is_judged(name):
    made = candidate(name)
    train(made, Plan(2))
    made.settle()
    judged = judge(made, 2)
    assert 4 < judged.bits < 12
    assert judged.flops > 0
    if name in ("dropped", "equal"):
        assert judged.rate == 0
        assert judged.flops < judge(candidate("plain"), 1).flops


def test_monitors_of_v2_see_concepts_that_mean_nothing():
    made = candidate()
    judged = judge(made, 4)
    assert judged.shuffled != 0  # however little untrained concepts say
    figures = {name: value for name, value in vars(judged.stats).items() if "bucket" not in name}
    measured = {name for name, value in figures.items() if not math.isnan(value)}
    assert measured == {"progress", "shuffled", "masked", "codes"}
    with torch.no_grad():
        table = made.model.head.embedding.weight
        table[:] = table[0]
    same = judge(made, 4)
    assert same.shuffled == 0
    assert same.stats.masked == same.removed != 0
    assert "shuffled" in {action.monitor for action in diagnose(same.stats)}


@torch.no_grad()
def test_a_judgement_is_its_equations():
    """Every figure from the logits of packed passes over held-out text."""
    made = candidate()
    made.settle()
    x = made.corpus.judged(3, made.length)
    judged = judge(made, 3)
    output = made.model(x)
    placed, ids = output.routing.is_concept, output.routing.ids

    def nll(logits):
        logp = logits.double().log_softmax(-1)[:, :-1].gather(2, x[:, 1:, None])
        return -float(logp.mean())

    none = made.model(x, is_concept=torch.zeros_like(placed)).logits
    assert judged.bits == pytest.approx(nll(output.logits) / math.log(2), rel=1e-5)
    assert judged.removed == pytest.approx(nll(none) - nll(output.logits), abs=1e-5)
    share = torch.bincount(ids[placed], minlength=16) / int(placed.sum())
    assert judged.dead == pytest.approx(float((share == 0).float().mean()))
    assert judged.perplexity == pytest.approx(math.exp(float(torch.special.entr(share).sum())))
    assert judged.rate == pytest.approx(float(placed.float().mean()))
    context = made.length / 2
    base = made.model.base_config
    tails = [
        t - max((s for s in range(t + 1) if row[s]), default=-1)
        for row in placed.tolist() for t in range(len(row))
    ]  # fmt: skip
    wanted = concept_token(base, CONFIG, context, judged.rate, sum(tails) / len(tails))
    assert judged.flops == pytest.approx(wanted)
    plain = candidate("plain")
    found = judge(plain, 3)
    assert found.bits == pytest.approx(nll(plain.model(input_ids=x).logits) / math.log(2), rel=1e-5)
    assert found.flops == plain_token(base, context)


@torch.no_grad()
def test_shuffled_codes_cost_what_they_lose(monkeypatch):
    made = candidate()
    made.settle()
    x = made.corpus.judged(2, made.length)
    right, means = baselines.token_nll, []
    monkeypatch.setattr(
        baselines, "token_nll", lambda *a: (means.append(float(right(*a).mean())), right(*a))[1]
    )
    judged = judge(made, 2)
    own, shuffled, removed = means
    assert own == pytest.approx(float(right(made.model(x).logits, x).mean()))
    assert judged.shuffled == pytest.approx(shuffled - own)
    assert judged.removed == pytest.approx(removed - own)


@torch.no_grad()
@pytest.mark.parametrize("name", ["faithful", "random"])
def test_the_codes_that_were_used_are_shuffled(name, monkeypatch):
    """Of a control that has codes of its own, these: no new ones are drawn meanwhile.

    Each is moved to the next here: an untrained router may choose one code everywhere, which no
    shuffle changes.
    """
    made = candidate(name)
    made.settle()
    passes = []
    monkeypatch.setattr(baselines, "shuffled_codes", lambda ids, _: (ids + 1) % CONFIG.n_concepts)
    made.model.register_forward_hook(lambda *given: passes.append(given[-1].routing))
    judge(made, 2)
    own, dealt, _ = passes
    places = own.is_concept
    assert places.any()
    assert torch.equal(places, dealt.is_concept)
    assert torch.equal((own.ids[places] + 1) % CONFIG.n_concepts, dealt.ids[places])


def test_a_threshold_is_set_by_what_is_trained_on_in_the_seed_s_own_batches():
    sides = (torch.full((400,), byte, dtype=torch.uint8) for byte in (97, 98))
    made, seen = candidate(), []
    made.corpus = Corpus(*sides, "")
    made.model.settle = seen.extend
    made.settle()
    assert {int(byte) for x in seen for byte in x.unique()} == {97}
    other = replace(candidate(), seed=1)
    assert not torch.equal(candidate().batch(0), other.batch(0))


def test_costs_of_what_a_configuration_adds():
    """At width 64 and 64 keys, by hand: maps, scores and values, two operations a product."""
    shape = tiny_config(layers=6)  # 4 heads of 16 on 2 key heads, 128 within
    maps = 2 * 64 * (64 + 32 + 32 + 64 + 3 * 128)
    assert plain_token(shape, 64) == 6 * (maps + 4 * 64 * 64) + 2 * 64 * 256
    own = {"n_concepts": 16, "rho": 0.25}
    base = concept_token(shape, ConceptConfig(2, 2, 2, **own), 64, 0.25, 1.5)
    linear, seen = maps * 4.5, 256 * (2 * 64 + 2 * 0.25 * 16 + 2 * 17.5)
    assert base == linear + seen + 2 * 64 * 256 + 2 * 64 * 17
    for changes, more in (
        ({"readout": "token"}, 0.25 * 2 * (maps + 256 * 17)),
        ({"shallow_window": 16}, -256 * 2 * 48),
        ({"boundary": "hnet"}, 2 * 64 * 2 * 64),
    ):
        config = ConceptConfig(2, 2, 2, **own, **changes)
        assert concept_token(shape, config, 64, 0.25, 1.5) == base + more


def test_shuffling_keeps_the_codes():
    ids = torch.arange(20).view(2, 10)
    is_concept = ids % 2 == 0
    dealt = shuffled_codes(ids, is_concept)
    assert torch.equal(dealt[~is_concept], ids[~is_concept])
    assert sorted(dealt[is_concept].tolist()) == ids[is_concept].tolist()
    with seeded(0):
        drawn = {tuple(shuffled_codes(ids, is_concept)[is_concept].tolist()) for _ in range(20)}
    assert len(drawn) > 10


def test_the_corpus_is_split_by_file_and_windows_must_fit():
    corpus = stdlib()
    # A file in ten is held out; how long it is, each Python decides.
    assert 5 < len(corpus.train) / len(corpus.valid) < 20
    assert torch.equal(corpus.batch(3, 2, 16), corpus.batch(3, 2, 16))
    assert not torch.equal(corpus.batch(3, 2, 16), corpus.batch(4, 2, 16))
    tiny = Corpus(torch.zeros(8, dtype=torch.uint8), torch.zeros(8, dtype=torch.uint8), "")
    with pytest.raises(InputError, match="do not fit a text of 8"):
        tiny.batch(0, 1, 16)


def test_floors_are_those_of_the_data():
    """12 tokens of one bit each given the codes, 12 bits more without them; all texts counted."""
    assert PlanTask().floors == pytest.approx((12 * math.log(2), 24 * math.log(2)))
    task = PlanTask(types=1, bits=4)
    joint = torch.ones(task.codes, 1, dtype=torch.float64)
    for i in range(task.bits):  # P(y_1 .. y_i | c) of all stretches of tokens, from the tables
        joint = (joint[:, :, None] * task.table[0, :-1, i, None].double()).flatten(1)
    entropy = torch.special.entr(joint).sum(1).mean(), torch.special.entr(joint.mean(0)).sum()
    assert tuple(float(h) for h in entropy) == pytest.approx(task.floors)
    with seeded(0):
        u, z, y = PlanTask(types=1, bits=2).sample(4000)
    _, counts = torch.unique(y, dim=0, return_counts=True)
    p = counts / counts.sum()
    assert abs(float(-(p * p.log()).sum()) - PlanTask(types=1, bits=2).floors[1]) < 0.02
    assert len(torch.unique(torch.cat([u, z], 1), dim=0)) == 4  # u names z one to one


def test_floors_with_several_codes_a_type_are_those_of_the_data():
    """One or two codes of four: P(y | plan) of all 20 plans and 256 texts; u names each plan."""
    task = PlanTask(types=1, bits=2, slots=2)
    with seeded(0):
        u, z, y = task.sample(4000)
    plans, share = torch.unique(z, dim=0, return_counts=True)
    assert len(plans) == len(torch.unique(torch.cat([u, z], 1), dim=0)) == 20
    assert len(torch.unique(u, dim=0)) == 20
    assert 0 <= int(u.min()) < int(u.max()) < task.shape().u_vocab == 12
    ended = plans[:, 1] == task.shape().eos
    assert abs(float(share[ended].sum()) / 4000 - 0.5) < 0.05
    joint = torch.ones(20, 1, dtype=torch.float64)
    for slot, i in product(range(2), range(2)):
        joint = (joint[:, :, None] * task.table[0, plans[:, slot], i, None].double()).flatten(1)
    weight = torch.where(ended, 1 / 8, 1 / 32).double()
    known = weight @ torch.special.entr(joint).sum(1)
    free = torch.special.entr(weight @ joint).sum()
    assert (float(known), float(free)) == pytest.approx(task.floors)
    assert y.shape == (4000, task.y_length) == (4000, 4)


def test_bad_settings_of_v3():
    with pytest.raises(InputError, match="codes: Input should be greater than 0"):
        PlanShape(2, 0, 1, 4, 4)
    with pytest.raises(InputError, match="drop: Input should be less than or equal to 1"):
        Curriculum(drop=1.5)
    with pytest.raises(InputError, match="samples >= batch"):
        EMSettings(samples=4, batch=8)
    with pytest.raises(InputError, match="bits: Input should be 2, 4 or 6"):
        PlanTask(bits=3)


@pytest.mark.parametrize("sequence", [False, True])
def test_planning_with_what_was_read_of_the_prompt_is_planning_without(sequence):
    """Each code is the likeliest given those before it, by a pass over everything."""
    shape = PlanShape(3, 5, 3, u_vocab=7, y_vocab=4, d=32, sequence=sequence)
    planner = Planner(shape)
    for p in planner.backbone.layers.parameters():
        p.data.mul_(10 if p.ndim == 2 else 1)  # so that what is read matters
    u = torch.randint(7, (40, 4), generator=torch.Generator().manual_seed(0))
    z = planner.sample(u, 0.0)
    with torch.no_grad():
        best = planner.logits(u, z).argmax(-1)[:, :, :-1]
    counts = sequence_mask(z, shape.eos)[:, :, :-1]
    assert len(torch.unique(counts.sum((1, 2)))) > 3  # lengths differ
    assert torch.equal(best[counts], z[:, :, :-1][counts])


def test_writing_with_a_cache_is_writing_without():
    shape = PlanShape(types=2, codes=5, slots=3, u_vocab=7, y_vocab=4, d=32)
    executor, planner = Executor(shape), Planner(shape)
    u = torch.randint(7, (3, 4), generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        z = planner.sample(u)
    z[0, 0] = shape.eos  # an empty plan among others
    text = executor.write(z, 6, temperature=0.0)
    ids = z[:, :, :-1]
    with torch.no_grad():
        logits = executor.logits(executor.embed(ids), ids != shape.eos, text)
    assert torch.equal(logits.argmax(-1), text)


def test_multi_token_heads_and_short_to_long():
    shape = PlanShape(types=2, codes=5, slots=3, u_vocab=7, y_vocab=4, d=32, mtp=2)
    planner = Planner(shape)
    u = torch.zeros(2, 3, dtype=torch.long)
    z = torch.tensor([[[0, 1, 2, 5], [3, 5, 5, 5]]]).expand(2, -1, -1)
    assert float(planner.loss(u, z)) > float(planner.loss(u, z, mtp_weight=0.0))
    assert math.isclose(
        float(planner.loss(u, z, mtp_weight=0.0)),
        -float(planner.log_prob(u, z).mean()),
        rel_tol=1e-5,
    )
    plan = Curriculum(warm_up=100, grow=0.5)
    assert [plan.length(s, 64) for s in (0, 25, 50, 99)] == [16, 40, 64, 64]
    assert [Curriculum(steps=10, anneal=0.5).beta(s) for s in (0, 5, 9)] == [0.0, 1.0, 1.0]


def test_layers_dropped_without_a_head_cost_no_head():
    """At 8 layers of width 64 split 2/4/2 a head of 256 concepts is 33 thousand operations."""
    shape = tiny_config(layers=8, d_ff=160)
    config = ConceptConfig(2, 4, 2, n_concepts=256)
    with_head = concept_token(shape, config, 64, 0.0, 64)
    assert with_head - plain_token(shape, 64, 4) == 2 * 64 * 257
    made = candidate("dropped")
    assert judge(made, 1).flops == plain_token(made.model.base_config, 16, 2)


def test_a_folder_of_ones_own(tmp_path):
    with pytest.raises(InputError, match=r"no text under .* to train on"):
        folder(str(tmp_path))
    (tmp_path / "one.txt").write_text("a" * 90 + "b" * 10)
    corpus = folder(str(tmp_path))
    assert (len(corpus.train), corpus.valid.tolist()) == (90, [98] * 10)
    for i in range(20):
        (tmp_path / f"{i:02d}.txt").write_bytes(bytes([i]) * 3)
    (tmp_path / "one.txt").unlink()
    corpus = folder(str(tmp_path))  # every tenth file, and no byte of it is trained on
    assert (set(corpus.valid.tolist()), len(corpus.valid)) == ({9, 19}, 6)
    assert set(corpus.train.tolist()) == set(range(20)) - {9, 19}


def test_a_draw_follows_its_temperature():
    logits = torch.tensor([[0.0, 1.0]]).expand(20_000, 2)
    for temperature in (0.5, 2.0):
        drawn = draw(logits, temperature, torch.Generator().manual_seed(0)).float().mean()
        assert float(drawn) == pytest.approx(1 / (1 + math.exp(-1 / temperature)), abs=0.02)
    assert bool((draw(logits, 0.0) == 1).all())


def test_a_plan_that_has_ended_stays_ended(monkeypatch):
    planner = Planner(PlanShape(types=2, codes=5, slots=3, u_vocab=7, y_vocab=4, d=32))
    logits = torch.zeros(1, 2, 4, 6)
    logits[..., 2] = 9.0
    logits[:, 0, 0, 5] = 99.0  # the first type ends at once, and code 2 is the likeliest after it
    monkeypatch.setattr(planner, "logits", lambda u, z, cache: logits)
    z = planner.sample(torch.zeros(1, 3, dtype=torch.long), 0.0)
    assert z.tolist() == [[[5, 5, 5, 5], [2, 2, 2, 5]]]


def test_heads_further_ahead_foretell_what_comes_further_ahead():
    """Logits of (1, 2, 3) whatever is read: z = (0, 1) costs c_0 + c_1, ahead c_1.

    The EOS behind the last slot is no choice and costs nothing.
    """
    planner = Planner(PlanShape(types=1, codes=2, slots=2, u_vocab=7, y_vocab=4, d=32, mtp=1))
    with torch.no_grad():
        planner.heads[0].weight.zero_()
        planner.heads[0].bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    cost = math.log(math.e + math.e**2 + math.e**3) - torch.tensor([1.0, 2.0, 3.0])
    found = planner.loss(torch.zeros(1, 3, dtype=torch.long), torch.tensor([[[0, 1, 2]]]), 0.3)
    assert float(found) == pytest.approx(float(cost[:2].sum() + 0.3 * cost[1]), rel=1e-5)
