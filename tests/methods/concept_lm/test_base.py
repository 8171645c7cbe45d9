"""The base: tiny or from disk through the same code; clear errors before work starts."""

import warnings

import pytest
import torch
from transformers import GPT2Config

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.config import ConceptConfig, recommended
from methods.concept_lm.decode import generate, prefill, step
from methods.concept_lm.model import ConceptLM
from methods.errors import InputError


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_saved_model_loads_through_the_same_code(tmp_path, family):
    base = load_base(tiny_config(family), seed=3)
    base.save_pretrained(tmp_path)
    again = load_base(tmp_path)
    x = checks.tokens("cpu")
    with torch.no_grad():
        assert torch.equal(base(x).logits, again(x).logits)
        model = ConceptLM(again, ConceptConfig(2, 2, 2, n_concepts=8)).eval()
        assert generate(model, x, 3).shape == (2, 3)


def test_no_model_there(tmp_path):
    with pytest.raises(InputError, match=r"no base model at .*give a folder with config\.json"):
        load_base(tmp_path / "nothing")


def test_weights_missing(tmp_path):
    tiny_config().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"weights of .* cannot be read"):
        load_base(tmp_path)


def test_another_family(tmp_path):
    GPT2Config().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="'gpt2' model; this method reads qwen2, qwen3, llama"):
        load_base(tmp_path)


def test_sliding_windows_are_refused():
    config = tiny_config()
    config.layer_types = ["sliding_attention"] * 6
    with pytest.raises(InputError, match="sliding-window"):
        load_base(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shallow": 0}, "shallow: .*, not 0"),
        ({"middle": -1}, "middle: .* equal to 0, not -1"),
        ({"n_concepts": 0}, "n_concepts: .* greater than 0"),
        ({"rho": 0.0}, "rho: .* greater than 0"),
        ({"rho": 1.0}, "rho: .* less than 1"),
        ({"run_cap": -1}, "run_cap: "),
        ({"run_cap": 2, "rho": 0.2}, "forces at least 0.333 concepts"),
        ({"positions": "relative"}, "positions: .*'absolute' or 'compact', not 'relative'"),
        ({"readout": "both"}, "readout: .*'seed' or 'token'"),
        ({"boundary": "sentences"}, "boundary: .*'null', "),
        ({"temperature": 0.0}, "temperature: .* greater than 0"),
        ({"lora_rank": 0}, "lora_rank: "),
    ],
)
def test_bad_configurations(changes, message):
    with pytest.raises(InputError, match=message):
        ConceptConfig(**({"shallow": 2, "middle": 2, "deep": 2} | changes))


def test_the_split_must_add_up():
    with pytest.raises(InputError, match="2/3/2 adds up to 7 layers; the base model has 6"):
        ConceptLM(load_base(tiny_config()), ConceptConfig(2, 3, 2))


def test_bad_tokens():
    model = checks.example("cpu")
    with pytest.raises(InputError, match=r"ids lie in 0\.\.256, the base's vocabulary in 0\.\.255"):
        model(torch.tensor([[0, 256]]))
    with pytest.raises(InputError, match="5000 tokens, but the base has 4096 positions"):
        model(torch.zeros(1, 5000, dtype=torch.long))
    with pytest.raises(InputError, match="non-empty"):
        model(torch.zeros(1, 0, dtype=torch.long))
    with pytest.raises(InputError, match="non-empty integers"):
        model(torch.zeros(1, 4))
    for n, temperature in ((0, 0.0), (3, -1.0), (3, float("nan"))):
        with pytest.raises(InputError, match="n is at least 1 and the temperature 0"):
            generate(model, checks.tokens("cpu"), n, temperature=temperature)
    with pytest.raises(InputError, match=r"prompt lengths must lie in 1\.\.24"):
        prefill(model, checks.tokens("cpu"), torch.tensor([0, 4]))


def test_decoding_past_the_positions():
    base = load_base(tiny_config(max_positions=6))
    model = ConceptLM(base, ConceptConfig(2, 2, 2, n_concepts=8)).eval()
    _, state = prefill(model, torch.zeros(1, 6, dtype=torch.long))
    with pytest.raises(InputError, match="6 positions"):
        step(model, torch.zeros(1, dtype=torch.long), state)


def test_presets():
    assert ConceptConfig(2, 8, 2).usage_bonus == 0
    assert recommended(2, 8, 2).usage_bonus > 0


def test_a_model_is_made_without_warnings_of_others():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConceptLM(load_base(tiny_config()), ConceptConfig(2, 2, 2, n_concepts=8))
