"""Settings: the source's keys, and every bad value refused with its bounds."""

import math
import re
from pathlib import Path

import pytest

from methods.errors import InputError
from methods.token_pruning import spec
from methods.token_pruning.accounting import (
    LLAVA_7B,
    kv_bytes,
    prefill_flops,
    token_counts,
    total_flops,
)
from methods.token_pruning.config import PruningConfig, faithful, load_config
from methods.token_pruning.spec import METHOD
from webapp.catalog.verdicts import judge

README = Path(__file__).parents[3] / "methods/token_pruning/README.md"
SOURCE = """
merger_type: simple
merge_ratio: 0.5
target_merge_tokens: 288
pruning_layers: [10, 20, 31]
pruner_d_internal: 512
pruner_num_heads: 4
temperature: 1.0
temperature_min: 0.1
temperature_anneal_rate: 0.5
adv_loss_weight: 1.0
task_loss_weight: 25.0
merge_sparsity_weight: 1e-4
optimizers:
  merger: {lr: 2e-5}
  pruner: {lr: 3e-5}
  discriminator: {lr: 5e-4}
"""


def test_the_source_s_keys_load(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(SOURCE)
    config = load_config(path)
    assert (config.merger_type, config.d_internal, config.num_heads) == ("simple", 512, 4)
    assert (config.merger_lr, config.pruner_lr, config.discriminator_lr) == (2e-5, 3e-5, 5e-4)
    assert config.merge_sparsity_weight == 1e-4
    assert config.keep_tokens == (200, 150, 100)
    assert config.merged(576) == 288


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("merge_raito: 0.5", "unknown key 'merge_raito'"),
        ("optimizers: {adam: {lr: 1}}", "unknown optimiser 'adam'"),
        ("optimizers: {merger: {lr: fast}}", "merger_lr: .*number.*not 'fast'"),
        ("merge_ratio: half", "merge_ratio: .*number.*not 'half'"),
        ("pruning_layers: 3", "pruning_layers: .*tuple, not 3"),
        ("- a list", "holds no mapping"),
        ("merge_ratio: [", "is no YAML"),
        ("optimizers: {merger: 3}", "optimizers.merger has no lr"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_config(path)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml cannot be read"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"merge_ratio": 0.0}, "merge_ratio: .* greater than 0, not 0.0"),
        ({"merge_ratio": 1.5}, "merge_ratio: .* equal to 1, not 1.5"),
        ({"merge_ratio": math.nan}, "merge_ratio: .*finite"),
        ({"target_merge_tokens": 0}, "target_merge_tokens: .* 0, not 0"),
        ({"pruning_layers": (20, 10, 31)}, "they must rise"),
        ({"pruning_layers": (-2, 10, 31)}, "pruning_layers.0: .* 0, not -2"),
        ({"keep_tokens": (200, 150)}, "2 budgets for 3 pruning layers"),
        ({"keep_tokens": (100, 150, 200)}, "do not come back"),
        ({"keep_tokens": (2, 1, 0)}, "at least one visual token"),
        ({"num_heads": 3}, "do not divide d_internal"),
        ({"merger_type": "magic"}, "merger_type: .*'simple'.*not 'magic'"),
        ({"loss": "wgan"}, "loss: .*'attention', not 'wgan'"),
        ({"temperature_min": 0.0}, "temperature_min: .* greater than 0"),
        ({"temperature_min": 2.0}, r"temperature_min \(2.0\) exceeds temperature \(1.0\)"),
        ({"temperature_anneal_rate": 0.0}, "temperature_anneal_rate: "),
        ({"task_loss_weight": -1.0}, "task_loss_weight: .* 0, not -1.0"),
        ({"merger_lr": math.nan}, "merger_lr: .*finite"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_values_no_model_can_have(values, message):
    with pytest.raises(InputError, match=message):
        PruningConfig(**values)


def test_models_it_does_not_fit():
    with pytest.raises(InputError, match="no pruning layer 31: the model has layers"):
        PruningConfig().fit(24, 576)
    with pytest.raises(InputError, match="a budget of 200 visual tokens exceeds the 128"):
        PruningConfig().fit(32, 256)
    with pytest.raises(InputError, match="target_merge_tokens 288 exceeds the 64"):
        PruningConfig(target_merge_tokens=288).fit(32, 64)
    with pytest.raises(InputError, match="no discriminator layer -40: the model has"):
        PruningConfig(discriminator_layers=(-40,)).fit(32, 576)


def test_the_claims_counted_anew():
    """70 % is the last layer's; the prompt's average falls by 54.6 %, operations by 54.9 %."""
    counts = token_counts(PruningConfig(), 32, 576, 100)
    whole = prefill_flops(LLAVA_7B, [676] * 32)
    assert round(sum(counts) / 32) == 307
    assert round(100 * sum(counts) / 32 / 676, 1) == 45.4
    assert round(prefill_flops(LLAVA_7B, counts) / whole, 3) == 0.451
    assert round(whole / prefill_flops(LLAVA_7B, counts), 2) == 2.22
    both = total_flops(LLAVA_7B, None, 100) / total_flops(LLAVA_7B, PruningConfig(), 100)
    assert round(both, 2) == 2.11
    share = prefill_flops(LLAVA_7B, [0.3 * 676] * 32)  # the bound at 30 % of all tokens
    assert round(whole / share, 2) == 3.36
    assert kv_bytes(LLAVA_7B, [676] * 32) == 676 * 32 * 2 * 4096 * 2


def test_the_readme_s_verdicts_are_the_page_s():
    rows = README.read_text(encoding="utf-8").splitlines()
    begins = {"tokens": "| tokens down", "flops": "| operations down",
              "accuracy": "| accuracy down", "bleu": "| BLEU down"}  # fmt: skip
    claims = {claim.id: claim for claim in METHOD.claims}
    for name, begin in begins.items():
        (row,) = (row for row in rows if row.startswith(begin))
        assert row.endswith(f"| {judge(claims[name], None).word} |")


def test_the_faithful_schedule_saves_nothing_at_the_last_layer():
    late = token_counts(faithful(), 32, 576, 100)
    assert late[-1] == 250
    assert late[10] == 388


def test_the_source_s_yaml_is_a_file_that_train_loads() -> None:
    """Every key of the source is read, and its values are our defaults."""
    path = Path(spec.__file__).parent / "configs/vision_token_pruning.yaml"
    assert load_config(path) == PruningConfig(target_merge_tokens=288)
    assert PruningConfig().merged(576) == 288
    told = set(re.findall(r"^(\w+):", path.read_text(), re.M))
    assert told >= {"merger_type", "target_merge_tokens", "pruner_d_internal", "optimizers"}
