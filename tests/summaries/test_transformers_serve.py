"""A real `transformers serve` with a tiny random Qwen: its nonsense becomes a failed state."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests import forking
from webapp.papers.models import Paper
from webapp.summaries import queue
from webapp.summaries.client import Server
from webapp.summaries.models import FullText, ServerCapability, Summary
from webapp.summaries.summarise import summarise

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
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a tiny Qwen that `transformers serve` answers for."""
    path = tmp_path / "tiny-qwen"
    _make_model(path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["serve", str(path), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    code = f"import sys; sys.argv = {['transformers', *words]!r}; "
    code += "from transformers.cli.transformers import main; main()"
    log = (tmp_path / "serve.log").open("wb")
    server = subprocess.Popen(
        forking.program(code),
        stdout=log,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "hf"),
        },
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, tmp_path / "serve.log")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        monkeypatch.setenv("ASSAY_SUMMARY_MODEL", str(path))
        yield str(path)
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    pytest.fail(log.read_text())


def test_nonsense_from_a_real_server_is_a_failed_state_with_a_readable_reason(
    served: str, settings: Any
) -> None:
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
