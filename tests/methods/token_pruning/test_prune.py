"""One line prunes a model of transformers: its `generate` goes on from fewer visual tokens."""

import pytest
import torch

from methods.errors import InputError
from methods.token_pruning.checks import example, prompt_of
from methods.token_pruning.choice import BEFORE, Stage
from methods.token_pruning.generate import generate
from methods.token_pruning.llava import load_llava
from methods.token_pruning.prune import UNREAD, prune
from methods.token_pruning.selectors import REGISTRY
from tests.methods.token_pruning.test_families import CONFIGS, asked


def inputs(llava, rows=2, padding=()):
    prompt = prompt_of(llava, rows, padding=padding)
    mask = prompt.real().long()
    return prompt, {
        "input_ids": prompt.ids, "pixel_values": prompt.pixels, "attention_mask": mask,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["fastv", "divprune", "tome"])
def test_with_every_token_kept_it_writes_what_the_model_writes(name):
    llava = example("cpu")
    _, given = inputs(llava, 3, padding=(0, 3, 1))
    with torch.no_grad():
        wanted = llava.generate(**given, max_new_tokens=6)
    assert prune(llava, name, keep=16) is llava
    assert torch.equal(llava.generate(**given, max_new_tokens=6), wanted)


@pytest.mark.parametrize(("name", "layer"), [("fastv", 2), ("divprune", BEFORE), ("cdpruner", 1)])
def test_it_writes_what_the_stages_write_and_is_taken_back(name, layer):
    llava = example("cpu")
    prompt, given = inputs(llava)
    with torch.no_grad():
        plain = llava.generate(**given, max_new_tokens=8)
    wanted = generate(llava, prompt, [Stage(layer, 3, REGISTRY[name])], 8)
    prune(llava, name, keep=3, layer=layer)
    found = llava.generate(**given, max_new_tokens=8)
    assert torch.equal(found[:, : prompt.ids.shape[1]], prompt.ids)
    assert torch.equal(found[:, prompt.ids.shape[1] :], wanted)
    del llava.generate
    with torch.no_grad():
        assert torch.equal(llava.generate(**given, max_new_tokens=8), plain)


def test_settings_of_a_call_reach_transformers():
    llava = example("cpu")
    prompt, given = inputs(llava)
    prune(llava, "divprune", keep=4)
    greedy = llava.generate(**given, max_new_tokens=5)
    first = int(greedy[0, prompt.ids.shape[1]])
    other = llava.generate(**given, max_new_tokens=5, suppress_tokens=[first])
    assert first not in other[0, prompt.ids.shape[1] :].tolist()
    draws = [
        llava.generate(
            **given, max_new_tokens=5, do_sample=True, generator=torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen3_vl", "llava_next"])
def test_other_families_are_pruned_alike(kind):
    model = load_llava(CONFIGS[kind])
    made = dict(asked(kind, model))
    with torch.no_grad():
        wanted = model.generate(**made, max_new_tokens=4, do_sample=False)
    prune(model, "fastv", keep=10_000)
    found = model.generate(**made, max_new_tokens=4, do_sample=False)
    assert torch.equal(found, wanted)
    prune(model, "fastv", keep=1)
    assert model.generate(**made, max_new_tokens=4).shape[0] == len(wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 2}, "greedy or samples"),
        ({"streamer": object()}, "no streamer"),
        ({"return_dict_in_generate": True}, "no dictionary"),
        ({"prompt_lookup_num_tokens": 2}, "greedy or samples"),
        *(({name: torch.zeros(1, 3)}, f"no {name}") for name in UNREAD),
    ],
)
def test_what_it_does_not_do_is_refused(options, message):
    llava = example("cpu")
    _, given = inputs(llava)
    prune(llava, "divprune", keep=4)
    with pytest.raises(InputError, match=message):
        llava.generate(**given, max_new_tokens=3, **options)


@pytest.mark.parametrize(
    ("name", "keep", "layer", "message"),
    [
        ("fastvv", 4, None, "no selector 'fastvv'; there are"),
        ("fastv", 4, 9, "no pruning layer 9"),
        ("tome", 4, 2, "cannot choose inside"),
        ("fastv", 4, BEFORE, "cannot choose before"),
        ("fastv", 0, None, "at least 1, not 0"),
        ("fastv", 1.5, None, "whole number"),
        ("fastv", True, None, "whole number"),
    ],
)
def test_what_cannot_be_pruned_so_is_refused_at_once(name, keep, layer, message):
    with pytest.raises(InputError, match=message):
        prune(example("cpu"), name, keep=keep, layer=layer)
