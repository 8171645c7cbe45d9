"""A real `transformers serve` with a tiny random Qwen: its nonsense becomes a failed state."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.processes import wait_for
from webapp.papers.models import Paper
from webapp.summaries import capability, queue
from webapp.summaries.client import Server
from webapp.summaries.models import FullText, ServerCapability, Summary
from webapp.summaries.summarise import summarise
from workers.up.llama import ModelFileError
from workers.up.model_here import servable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(600)]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HIDDEN, HEADS, MLP, LETTERS = 8, 2, 16, 258
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": LETTERS,
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "max_position_embeddings": 16384,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}


def _make_model(path: Path) -> None:
    """A Qwen2 of one layer whose words are bytes and whose weights are noise; without torch."""
    path.mkdir()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    words.save(str(path / "tokenizer.json"))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    tokenizer["chat_template"] = TEMPLATE
    (path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (path / "config.json").write_text(json.dumps(CONFIG))
    generation = {"max_new_tokens": 8, "do_sample": False}
    (path / "generation_config.json").write_text(json.dumps(generation))
    noise = np.random.default_rng(0)
    square, block = (HIDDEN, HIDDEN), "model.layers.0"
    shapes = {
        "model.embed_tokens.weight": (LETTERS, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        f"{block}.input_layernorm.weight": (HIDDEN,),
        f"{block}.post_attention_layernorm.weight": (HIDDEN,),
        f"{block}.self_attn.o_proj.weight": square,
        f"{block}.mlp.gate_proj.weight": (MLP, HIDDEN),
        f"{block}.mlp.up_proj.weight": (MLP, HIDDEN),
        f"{block}.mlp.down_proj.weight": (HIDDEN, MLP),
        **{f"{block}.self_attn.{name}_proj.weight": square for name in "qkv"},
        **{f"{block}.self_attn.{name}_proj.bias": (HIDDEN,) for name in "qkv"},
    }
    weights = {name: noise.standard_normal(s, dtype=np.float32) for name, s in shapes.items()}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Qwen as transformers keeps models."""
    path = tmp_path / "tiny-qwen"
    _make_model(path)
    return path


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has `nvidia-smi` say that a GPU of this machine has so many MiB free."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = tmp_path / "nvidia-smi"

    def has(free: int) -> None:
        program.write_text(f"#!/bin/sh\necho {free}\n")
        program.chmod(0o755)

    return has


def test_a_folder_is_served_where_the_gpu_has_room_for_it(
    folder: Path, gpu: Callable[[int], None]
) -> None:
    gpu(0)
    with pytest.raises(ModelFileError, match="without one only a GGUF file"):
        servable(folder, str(folder))
    gpu(3_000)
    with pytest.raises(ModelFileError, match=r"needs about 2\.0 GB of the GPU; half .* 1\.6 GB"):
        servable(folder, str(folder))
    gpu(8_000)
    assert servable(folder, str(folder)).name == "tiny-qwen"
    assert servable(folder, "org/tiny").name == "org/tiny", "a repository, in the hub's cache"
    with pytest.raises(ModelFileError, match=r"has no config\.json with \*\.safetensors"):
        servable(folder.parent, str(folder.parent))


@pytest.fixture
def served(
    folder: Path, gpu: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The tiny Qwen as `up --model` serves it, on the processor of this machine."""
    gpu(8_000)
    model = servable(folder, str(folder))
    for name, value in model.connection.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    server = model.start()

    def is_ready() -> bool:
        assert server.poll() is None
        return model.is_ready()

    try:
        wait_for(is_ready, 240, "its first word")
        yield
    finally:
        server.kill()
        server.wait()


def test_nonsense_from_a_real_server_is_a_failed_state_with_a_readable_reason(
    served: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability, "USUAL_TOKENS", 20)  # asked for after 1,024 are cut off
    settings.SUMMARY_SILENCE = 240.0  # a busy machine takes its time
    paper = Paper.objects.create(
        arxiv_id="2512.00001", title="T", abstract="It is 3.5x faster.", primary_category="cs.LG"
    )
    FullText.objects.create(
        paper=paper,
        version=1,
        source="abstract",
        sections=[{"title": "Abstract", "text": paper.abstract}],
        sha256="0" * 64,
        fetched_at="2025-12-18T00:00:00Z",
    )
    server = Server.configured()
    assert server is not None
    queue.request([paper], "en", server)
    assert summarise(queue.ready()[0]) == "failed"
    summary = Summary.objects.get()
    assert summary.reason.startswith("the model's answer cannot be used: ")
    assert ServerCapability.objects.get().mode == "prompt"
