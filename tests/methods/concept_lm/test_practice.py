"""One's own Qwen: trained, resumed and written with, as the README says, on a tiny saved one."""

import math
import re
import signal
from multiprocessing import get_context

import pytest
import torch
from transformers import AutoTokenizer

from methods.__main__ import main
from methods.concept_lm import practice
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.marks import Mark, in_words
from methods.concept_lm.v3.em import HardEM
from methods.concept_lm.v3.executor import Executor
from methods.concept_lm.v3.planner import Planner
from methods.kit.checkpoint import read_state, save_state
from methods.kit.corpus import Corpus
from tests.methods.concept_lm import tiny_qwen
from tests.processes import wait_for

TEXT = "the cat sat on the mat and the dog sat on the cat ; " * 60


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def folder(tmp_path, request):
    """A Qwen of three layers with a tokenizer of bytes, and text."""
    tiny_qwen.save(tmp_path / "qwen", request.param)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.txt").write_text(TEXT)
    (tmp_path / "out").mkdir()
    return tmp_path


# For what precision has no part in.
SINGLE = pytest.mark.parametrize("folder", [torch.float32], ids=["float32"], indirect=True)


def command(name, folder, **changes):
    values = {"model": folder / "qwen", "out": folder / "out"} | changes
    return [name, "concept_lm", *(f"--set={k}={v}" for k, v in values.items())]


def run(name, folder, **changes):
    return main(command(name, folder, **changes))


def training(folder, **changes):
    values = {"data": folder / "text", "steps": 40, "every": 20, "rows": 4, "length": 32}
    values |= {"judged": 4, "n_concepts": 16, "lr": 0.01, "version": "v2"}
    return command("train", folder, **(values | changes))


def train(folder, **changes):
    return main(training(folder, **changes))


def test_train_then_generate(folder, capsys):
    assert train(folder) == 0
    printed = capsys.readouterr().out
    before, after = map(float, re.search(r"([\d.]+) before .* ([\d.]+) after", printed).groups())
    assert before > 7.5  # eight bits, nearly: nothing is known yet
    assert after < before - 0.3  # a random base that is frozen gives little
    assert re.search(r"\[\d+: '.+'\]", printed)
    bar = re.search(
        r"with 1 of 3 layers dropped in the place of concepts, trained alike, ([\d.]+)", printed
    )
    assert after - 1 < float(bar[1]) < before
    assert (folder / "out" / "dropped.pt").exists()
    assert run("generate", folder, prompt="the cat", new=12) == 0
    written, marked = capsys.readouterr().out.split("Concepts [code: nearest tokens]:\n")
    assert written.startswith("the cat")
    assert len(written.rstrip("\n").encode()) >= 12
    assert "[" in marked


def test_v3_plans_and_writes_on_one_frozen_base(folder, capsys):
    before = torch.cat([p.flatten() for p in load_base(folder / "qwen").parameters()])
    values = {"version": "v3", "types": 2, "slots": 2, "steps": 12, "lr": 0.003}
    assert train(folder, **values) == 0
    printed = capsys.readouterr().out
    costs = [float(value) for value in re.findall(r": ([\d.]+)$", printed, re.MULTILINE)]
    assert len(costs) == 5
    assert costs[0] > 7.5
    assert costs[2] > costs[1]  # a plan costs something
    weights = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    assert {name.split(".")[1] for name in weights if "lora" in name} == {"backbone"}
    roles = {name.split("/")[-2] for name in weights if "lora" in name}
    assert roles == {"planner", "executor", "recogniser"}
    assert len(weights) < 200
    assert run("generate", folder, prompt="the cat", new=12) == 0
    written = capsys.readouterr().out
    assert written.startswith("the cat")
    assert "Plan [code: nearest tokens]:\ntype 1: " in written
    after = torch.cat([p.flatten() for p in load_base(folder / "qwen").parameters()])
    assert torch.equal(before, after)


@SINGLE  # whose states are of single precision whatever the base is, as a test below says
def test_a_resumed_training_of_v3_is_the_whole_one(folder, monkeypatch, capsys):
    values = {"version": "v3", "slots": 3, "mtp": 1, "grow": 0.5, "steps": 6, "every": 3}
    values |= {"sequence": True, "beams": 1}
    assert train(folder, **values) == 0
    whole = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    (folder / "out" / "training.pt").unlink()
    right = HardEM.loss

    def interrupt(self, step):
        if step == 5:
            raise KeyboardInterrupt
        return right(self, step)

    monkeypatch.setattr(HardEM, "loss", interrupt)
    assert train(folder, **values) == 130
    monkeypatch.undo()
    assert train(folder, **values) == 0
    again = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert train(folder, **(values | {"n_concepts": 8})) == 2
    assert "made with another shape: codes 16, now 8" in capsys.readouterr().err
    assert train(folder, **(values | {"rows": 3})) == 2
    assert "made with another reading: rows 4, now 3" in capsys.readouterr().err


def test_a_resumed_training_is_the_whole_one(folder, capsys, monkeypatch):
    assert train(folder, steps=4, every=2) == 0
    whole = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    (folder / "out" / "training.pt").unlink()
    right = practice.OnText.training_loss

    def interrupt(self, step):
        if step == 3:
            raise KeyboardInterrupt
        return right(self, step)

    monkeypatch.setattr(practice.OnText, "training_loss", interrupt)
    assert train(folder, steps=4, every=2) == 130
    monkeypatch.undo()
    assert train(folder, steps=4, every=2) == 0
    again = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert train(folder, steps=4, every=2, n_concepts=8) == 2
    assert "made with another model: n_concepts 16, now 8" in capsys.readouterr().err
    assert train(folder, steps=4, every=2, length=16) == 2
    assert "made with another reading: length 32, now 16" in capsys.readouterr().err
    (folder / "text" / "one.txt").write_text(TEXT * 2)
    assert train(folder, steps=4, every=2) == 2
    assert "made with another text: " in capsys.readouterr().err


@SINGLE
def test_kill_9_of_a_training_costs_what_came_after_its_last_checkpoint(folder, monkeypatch):
    """At any moment; started again it ends as if nothing had happened."""
    kept = folder / "out" / "training.pt"
    values = {"steps": 40, "every": 2, "judged": 2, "dropped": False}
    assert train(folder, **values) == 0
    whole = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    kept.unlink()
    (folder / "out" / practice.WEIGHTS).unlink()
    began = get_context("fork").Process(target=train, args=(folder,), kwargs=values)
    began.start()
    wait_for(kept.exists, "a checkpoint")
    began.kill()
    began.join()
    assert began.exitcode == -signal.SIGKILL
    done = len(read_state(kept)["history"]["loss"])
    assert 2 <= done < 40, "nothing, or all, was done when it was killed"
    assert done % 2 == 0
    assert not (folder / "out" / practice.WEIGHTS).exists()
    steps, loss = [], practice.OnText.training_loss
    monkeypatch.setattr(
        practice.OnText,
        "training_loss",
        lambda self, step: (steps.append(step), loss(self, step))[1],
    )
    assert train(folder, **values) == 0
    assert steps == list(range(done, 40))
    again = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@SINGLE
def test_what_cannot_work_is_said_before_any_work(folder, capsys):
    for changes, message in (
        ({"out": folder / "nowhere"}, "is no folder; make it first"),
        ({"data": folder / "out"}, "no text under"),
        ({"model": folder / "text"}, "no base model at"),
        ({"edge": 2}, "middle: "),
        ({"length": 5000}, "windows of 5000"),
    ):
        assert train(folder, **changes) == 2
        assert message in capsys.readouterr().err
    assert run("generate", folder, prompt="the") == 2
    assert "concepts.pt is not a checkpoint" in capsys.readouterr().err
    for version in ("v2", "v3"):  # more positions than the base has, of prompt and text together
        assert train(folder, version=version, steps=1, slots=1) == 0
        (folder / "out" / "training.pt").unlink()
        assert run("generate", folder, prompt="the cat", new=4090) == 2
        assert "4097 tokens, but the base has 4096 positions" in capsys.readouterr().err
    (folder / "text" / "one.txt").write_text(TEXT * 20)
    for version in ("v2", "v3"):
        assert train(folder, version=version, length=5000) == 2
        assert "5000 tokens, but the base has 4096 positions" in capsys.readouterr().err


def uniform(folder):
    """The same Qwen with embeddings of zero, of which 256 bytes are alike: 8 bits each."""
    base = load_base(folder / "qwen")
    with torch.no_grad():
        base.get_input_embeddings().weight.zero_()
        base.get_output_embeddings().weight.zero_()
    base.save_pretrained(folder / "qwen")


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_bits_are_of_the_bytes_that_are_predicted(folder, capsys, version):
    uniform(folder)
    assert train(folder, version=version, steps=2) == 0
    assert "8.000" in capsys.readouterr().out.splitlines()[2 if version == "v3" else 1]


@SINGLE
@pytest.mark.parametrize("about", [{}, {"about": {}}, {"about": {"version": "v9"}}])
def test_a_file_that_train_did_not_write_is_refused(folder, capsys, about):
    save_state(folder / "out" / practice.WEIGHTS, {"weights": {}, **about})
    assert run("generate", folder, prompt="the") == 2
    assert "is not what train wrote" in capsys.readouterr().err


@SINGLE
def test_what_is_sampled_is_of_its_seed(folder, capsys):
    assert train(folder, steps=1) == 0
    capsys.readouterr()
    texts = []
    for seed in (0, 0, 1):
        assert run("generate", folder, prompt="the cat", new=12, temperature=1.0, seed=seed) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


@SINGLE
def test_controls_are_what_they_are_called(folder, capsys, monkeypatch):
    """Codes are shuffled once the threshold is set; another's plan is that of the row before."""
    calls = []
    settle, shuffled = practice.OnText.settle, practice.shuffled_codes
    monkeypatch.setattr(
        practice.OnText, "settle", lambda self: (calls.append("settled"), settle(self))[1]
    )
    monkeypatch.setattr(
        practice, "shuffled_codes", lambda *a: (calls.append("shuffled"), shuffled(*a))[1]
    )
    assert train(folder, steps=2, dropped=False) == 0
    assert calls == ["settled"] + ["shuffled"] * 4  # of four windows
    plans = []
    nll = HardEM.nll
    monkeypatch.setattr(HardEM, "nll", lambda self, z: (plans.append(z), nll(self, z))[1])
    monkeypatch.setattr(
        Planner, "sample", lambda self, u, *_, **__: (torch.arange(len(u)) % 16)[:, None, None]
        * torch.tensor([[[1, 1, 1, 0]] * 2]) + torch.tensor([0, 0, 0, 16]),
    )  # fmt: skip
    (folder / "out" / "training.pt").unlink()
    assert train(folder, version="v3", steps=2, slots=3) == 0
    own, priced, other, none = plans[-4:]
    assert torch.equal(own, priced)
    assert torch.equal(other, own.roll(1, 0))
    assert not torch.equal(other, own)
    assert (none == 16).all()


def test_what_is_judged_is_held_out():
    def spell(text, **_):
        return {"input_ids": list(text.encode())}

    sides = torch.full((40,), 97), torch.full((40,), 98)
    made = practice.tokenised(Corpus(*sides, "digest"), spell)
    assert set(made.train.tolist()) == {97}
    assert set(made.valid.tolist()) == {98}
    task = practice.Continuation(made, 8, torch.device("cpu"))
    for drawn, byte in ((task.sample(3), 97), (task.held(3), 98)):
        u, none, y = drawn
        assert (u.shape, none.shape, y.shape) == ((3, 4), (3, 0), (3, 4))
        assert {*u.flatten().tolist(), *y.flatten().tolist()} == {byte}


def test_what_is_new_is_kept_in_single_precision_and_nothing_else(folder):
    frozen = load_base(folder / "qwen").get_input_embeddings().weight.shape
    for version in ("v2", "v3"):
        assert train(folder, version=version, steps=1) == 0
        weights = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
        assert frozen not in {t.shape for t in weights.values()}
        assert {t.dtype for t in weights.values() if t.is_floating_point()} == {torch.float32}
        (folder / "out" / "training.pt").unlink()


@SINGLE
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_a_text_ends_where_its_end_is_written(folder, capsys, monkeypatch, version):
    """The tokenizer's end is the letter q; without one all is shown."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "qwen")
    ids = torch.tensor([tokenizer("sat_q_mat_q")["input_ids"]])
    monkeypatch.setattr(practice, "generate", lambda *_, **__: ids)
    monkeypatch.setattr(Executor, "write", lambda *_: ids)
    assert train(folder, version=version, steps=1, slots=1) == 0
    for end, shown in ((None, "the cat_sat_q_mat_q"), ("q", "the cat_sat_")):
        tokenizer.eos_token = end
        tokenizer.save_pretrained(folder / "qwen")
        capsys.readouterr()
        assert run("generate", folder, prompt="the cat_", new=11) == 0
        assert capsys.readouterr().out.splitlines()[0] == shown


def test_bits_of_half_precision_are_summed_in_single():
    source = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(1, 9, 50, generator=source)).bfloat16()
    x = torch.randint(50, (1, 9), generator=source)
    logp = logits.double().log_softmax(-1)[0, :-1].gather(1, x[0, 1:, None])
    wanted = -float(logp.sum()) / math.log(2) / 4
    assert practice.bits(lambda row: logits, x, 4) == pytest.approx(wanted, rel=1e-5)


@SINGLE
def test_a_tokenizer_larger_than_its_weights_is_refused(folder, capsys):
    small = tiny_config(vocab=9, d=32, layers=1, d_ff=32, heads=2, kv_heads=1)
    load_base(small).save_pretrained(folder / "qwen")
    assert main(training(folder)) == 2
    assert "has 256 words, its weights 9: they are not of one model" in capsys.readouterr().err


def test_marks_inside_a_character_stand_behind_the_whole_of_it():
    def spell(tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")

    text = torch.tensor(list("a你🤖b".encode()))  # 1 + 3 + 4 + 1 bytes
    found = [Mark(place, place, (97,)) for place in (0, 2, 3, 5, 8)]
    assert in_words(text, found, spell) == "a[0: 'a']你[2: 'a'][3: 'a']🤖[5: 'a']b[8: 'a']"
    whole = [Mark(7, 7, (97,))]
    assert in_words(text, whole, spell) == "a你🤖[7: 'a']b"
    assert in_words(text[:6], [Mark(5, 5, (97,))], spell).endswith("[5: 'a']")


@SINGLE
def test_v1_is_tuned_and_writes(folder, capsys):
    """LoRA alone, as a baseline: no concepts in what it prints, and its text goes on."""
    assert train(folder, version="v1", steps=3) == 0
    told = capsys.readouterr().out
    assert re.search(r"bits a byte: [\d.]+ before \(the base\), [\d.]+ after$", told.strip())
    weights = torch.load(folder / "out" / practice.WEIGHTS)["weights"]
    assert weights
    assert all(".lora_" in name for name in weights)
    assert run("generate", folder, prompt="the cat", new=8) == 0
    assert capsys.readouterr().out.startswith("the cat")


@SINGLE
def test_the_options_of_v2_are_parameters_and_its_monitors_are_told(folder, capsys):
    options = {
        "boundary": "fixed", "n_concepts": 16, "usage_bonus": 0,
        "readout": "seed", "positions": "compact", "shallow_window": 0, "run_cap": 0,
    }  # fmt: skip
    assert train(folder, steps=2, **options) == 0
    told = capsys.readouterr().out
    assert "with concepts removed" in told
    assert re.search(r"^monitors: progress 1, shuffled [-\d.e]+, masked [-\d.e]+$", told, re.M)
    kept = torch.load(folder / "out" / practice.WEIGHTS)["about"]["config"]
    assert {name: kept[name] for name in options} == options


@SINGLE
def test_v3_tells_its_monitors_and_how_often_plans_are_chosen_is_a_parameter(
    folder, capsys, monkeypatch
):
    """M is how many epochs lie between two choices: with 1 an example's plan is chosen anew."""
    chosen = []
    right = practice.HardEM.__init__
    monkeypatch.setattr(
        practice.HardEM,
        "__init__",
        lambda self, *given, **kind: (chosen.append(given[2].every), right(self, *given, **kind))[
            1
        ],
    )
    v3 = {"version": "v3", "steps": 4, "slots": 1, "choose_every": 5}
    assert train(folder, **v3) == 0
    told = capsys.readouterr().out
    assert chosen == [5]
    assert len(re.findall("^monitors: ", told, re.M)) == 1
    assert "own " in told
    assert "entropy " in told
