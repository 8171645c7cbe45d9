"""A sentence encoder of BERT's architecture in numpy, such as all-MiniLM-L6-v2.

Devlin et al., "BERT" (arXiv 1810.04805), section 3, with the mean over tokens and length 1 as in
Reimers and Gurevych, "Sentence-BERT" (arXiv 1908.10084), section 3. Torch would take 250 MB and
four seconds to be imported; this reads the weights where they lie in the file, so that processes
share them. A test compares it with transformers.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

TOKENS = 256  # read of a text, as all-MiniLM-L6-v2 was trained
BATCH = 16  # texts, sorted by length


class Encoder:
    """An encoder in a folder of `transformers`: config.json, tokenizer.json, model.safetensors.

    Raises OSError if a file is missing and ValueError for another architecture.
    """

    def __init__(self, folder: Path) -> None:
        # Both come with the methods' packages, which the site may lack.
        from tokenizers import Tokenizer  # noqa: PLC0415

        config = json.loads((folder / "config.json").read_text())
        if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
            raise ValueError(f"{folder} holds no encoder of BERT's architecture")
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.epsilon: float = config["layer_norm_eps"]
        self.weights = _read(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(min(TOKENS, config["max_position_embeddings"]))
        self.tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors of length 1: float32 [len(texts), width]."""
        import numpy as np  # noqa: PLC0415

        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        width = self.weights["embeddings.word_embeddings.weight"].shape[1]
        vectors = np.zeros((len(texts), width), np.float32)
        order = sorted(range(len(texts)), key=lambda n: len(tokens[n]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            longest = len(tokens[rows[-1]])
            ids = np.array([tokens[n] + [0] * (longest - len(tokens[n])) for n in rows])
            held = np.arange(longest) < np.array([[len(tokens[n])] for n in rows])
            vectors[rows] = self._forward(ids, held)
        return vectors

    def _forward(self, ids: Any, held: Any) -> Any:
        """Token numbers [texts, tokens] and which of them are none of padding to [texts, width]."""
        import numpy as np  # noqa: PLC0415

        texts, tokens = ids.shape
        embeddings = self.weights["embeddings.word_embeddings.weight"][ids]
        embeddings = embeddings + self.weights["embeddings.position_embeddings.weight"][:tokens]
        embeddings = embeddings + self.weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(embeddings, "embeddings.LayerNorm")
        width = hidden.shape[-1] // self.heads
        hide = np.where(held, np.float32(0), np.float32(-1e9))[:, None, None, :]
        for layer in range(self.layers):
            prefix = f"encoder.layer.{layer}"

            def split(name: str, prefix: str = prefix, hidden: Any = hidden) -> Any:
                projected = self._linear(hidden, f"{prefix}.attention.self.{name}")
                return projected.reshape(texts, tokens, self.heads, width).transpose(0, 2, 1, 3)

            scores = split("query") @ split("key").transpose(0, 1, 3, 2) / math.sqrt(width) + hide
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            mixed = (weights @ split("value")).transpose(0, 2, 1, 3).reshape(hidden.shape)
            mixed = self._linear(mixed, f"{prefix}.attention.output.dense")
            hidden = self._norm(hidden + mixed, f"{prefix}.attention.output.LayerNorm")
            inner = _gelu(self._linear(hidden, f"{prefix}.intermediate.dense"))
            hidden = self._norm(
                hidden + self._linear(inner, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm"
            )
        held = held[:, :, None].astype(np.float32)
        mean = (hidden * held).sum(axis=1) / held.sum(axis=1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _linear(self, x: Any, name: str) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x: Any, name: str) -> Any:
        import numpy as np  # noqa: PLC0415

        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    """x Φ(x), with erf by Abramowitz and Stegun's formula 7.1.26 (error below 1.5e-7)."""
    import numpy as np  # noqa: PLC0415

    z = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429)
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(term)
    beyond = series * t * np.exp(-z * z) / 2  # 1 - Φ(|x|)
    return x * np.where(x < 0, beyond, 1 - beyond)


def _read(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file of float32, mapped into memory.

    Raises ValueError if the file is none.
    """
    import numpy as np  # noqa: PLC0415

    raw = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(bytes(raw[:8]), "little")
    if length > min(len(raw), 2**20):
        raise ValueError(f"{path} is no safetensors file")
    tensors = {}
    for name, about in json.loads(bytes(raw[8 : 8 + length])).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = (8 + length + offset for offset in about["data_offsets"])
            tensors[name] = raw[begin:end].view(np.float32).reshape(about["shape"])
    return tensors


@cache
def load(folder: Path) -> Encoder:
    """The encoder in `folder`, read once."""
    return Encoder(folder)
