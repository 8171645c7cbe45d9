"""Memory and time that a language model takes on this machine, by its size.

    pip install gguf && python -m benchmarks.local_models [--sizes 0.6,1.7,4,8]

The files have the shapes of Qwen3 (their published configurations), random weights of four bits
and the vocabulary of SmolLM2: time and memory do not depend on what the weights are. Each is
served as `up --model` serves it, and reads 512 tokens and writes 32. From these speeds follows what
a summary takes, whose question has READ tokens and whose answer WRITTEN.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil

from benchmarks.figures import arguments
from workers.up.llama import ModelFile, fitting_context
from workers.up.local_model import LocalModel, find_model

READ, WRITTEN = 12_000, 1_000  # tokens: 40,000 characters of a paper, and an answer
PAPERS = 15  # of a day, which `ASSAY_SUMMARY_PAPERS` has made
# Layers, width, inner width, heads, heads of keys, by billions of parameters.
SHAPES = {
    "0.6": (28, 1024, 3072, 16, 8),
    "1.7": (28, 2048, 6144, 16, 8),
    "4": (36, 2560, 9728, 32, 8),
    "8": (36, 4096, 12288, 32, 8),
}
HEAD = 128
BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])  # 32 weights of Q4_0
KEPT = (
    *("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens"),
    *("tokenizer.ggml.merges", "tokenizer.ggml.token_type", "tokenizer.chat_template"),
)


def main() -> int:
    """Print a line for each size."""
    parser = arguments(__doc__)
    parser.add_argument("--sizes", default=",".join(SHAPES), help="billions of parameters")
    sizes = parser.parse_args().sizes.split(",")
    print("parameters  file  estimated  taken  reads      writes    a summary   15 papers")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder) / f"{size}.gguf", SHAPES[size])
            model = ModelFile.read(path)
            taken, reads, writes = measured(path)
            estimated = model.memory(fitting_context(model))
            seconds = READ / reads + WRITTEN / writes
            print(
                f"{size:>6} B  {model.size / 1e9:>5.1f} GB  {estimated / 1e9:.1f} GB  "
                f"{taken / 1e9:.1f} GB  {reads:>5.1f} t/s  {writes:>4.1f} t/s  "
                f"{seconds / 60:>5.1f} min  {PAPERS * seconds / 3600:>6.1f} h",
                flush=True,
            )
    return 0


def written(path: Path, shape: tuple[int, ...]) -> Path:
    """Write a GGUF file of one of SHAPES with random weights."""
    import gguf

    layers, width, inner, heads, key_heads = shape
    vocabulary = gguf.GGUFReader(find_model("smollm2")).fields
    writer = gguf.GGUFWriter(path, "llama", use_temp_file=True)
    for name in KEPT:
        field = vocabulary[name]
        value, kinds = field.contents(), field.types
        writer.add_key_value(name, value, kinds[0], sub_type=kinds[1] if kinds[1:] else None)
    writer.add_block_count(layers)
    writer.add_context_length(40_960)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    random = np.random.default_rng(0)

    def matrix(name: str, outputs: int, inputs: int) -> None:
        blocks = np.empty((outputs, inputs // 32), BLOCK)
        blocks["scale"] = 0.01
        blocks["weights"] = random.integers(0, 256, blocks["weights"].shape, np.uint8)
        kind = gguf.GGMLQuantizationType.Q4_0
        writer.add_tensor(f"{name}.weight", blocks.view(np.uint8), raw_dtype=kind)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))

    matrix("token_embd", len(vocabulary["tokenizer.ggml.tokens"].data), width)
    norm("output_norm")
    for block in (f"blk.{layer}" for layer in range(layers)):
        norm(f"{block}.attn_norm")
        norm(f"{block}.ffn_norm")
        matrix(f"{block}.attn_q", heads * HEAD, width)
        matrix(f"{block}.attn_k", key_heads * HEAD, width)
        matrix(f"{block}.attn_v", key_heads * HEAD, width)
        matrix(f"{block}.attn_output", width, heads * HEAD)
        matrix(f"{block}.ffn_gate", inner, width)
        matrix(f"{block}.ffn_up", inner, width)
        matrix(f"{block}.ffn_down", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def measured(path: Path) -> tuple[int, float, float]:
    """Bytes of memory, and tokens a second that are read and written."""
    here = LocalModel.at_free_port(path)
    server = here.start()
    try:
        while True:
            try:
                urllib.request.urlopen(f"{here.address}/models", timeout=5)
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit(f"the server ended with {server.returncode}")
                time.sleep(0.2)
        asked = {"prompt": " paper" * 512, "max_tokens": 32, "ignore_eos": True}
        request = urllib.request.Request(
            f"{here.address}/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        timings = json.load(urllib.request.urlopen(request, timeout=3600))["timings"]
        memory = psutil.Process(server.pid).memory_info().rss
        return memory, timings["prompt_per_second"], timings["predicted_per_second"]
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
