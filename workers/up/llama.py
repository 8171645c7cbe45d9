"""llama.cpp's own server for one GGUF file, from the wheel `xllamacpp`.

`python -m workers.up.llama FILE NAME PORT`: at low priority, with one slot and all cores but one,
so that the site goes on answering. What it needs of memory is reckoned before it is loaded.
"""

import os
import struct
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from assay_common.parent_death import die_with_parent

CONTEXTS = (16_384, 8_192, 4_096)  # tokens; the first that memory and model allow is offered
BESIDE = 200_000_000  # bytes that a server takes beside the model and its cache
SHARE = 0.5  # of the free memory, beyond which a model is refused
MAX_ENTRIES, MAX_TEXT = 5_000_000, 50_000_000  # of a file's head
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_TEXT, _LIST = 8, 9


class ModelFileError(Exception):
    """A file is not a model, or does not fit; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class ModelFile:
    """A GGUF file, and the numbers of its head that say how large its cache is."""

    path: Path
    size: int  # bytes
    head: dict[str, int]

    @staticmethod
    def read(path: Path) -> "ModelFile":
        """Read the head of a file. Raises ModelFileError if it is not a GGUF file."""
        try:
            with path.open("rb") as file:
                return ModelFile(path, path.stat().st_size, _head(file))
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
        except (struct.error, ValueError, KeyError) as error:
            raise ModelFileError(f"{path} is no GGUF file.") from error

    def contexts(self) -> list[int]:
        """Tokens that may be offered, no more than it was trained for; most first."""
        trained = self._value("context_length") or CONTEXTS[0]
        return sorted({min(context, trained) for context in CONTEXTS}, reverse=True)

    def memory(self, context: int) -> int:
        """Bytes that a server of it takes: the file, keys and values of the context, the rest."""
        heads = self._value("attention.head_count") or 1
        width = self._value("embedding_length") // heads  # of a head, unless the file says it
        key = self._value("attention.key_length") or width
        value = self._value("attention.value_length") or width
        key_heads = self._value("attention.head_count_kv") or heads
        a_token = 2 * self._value("block_count") * key_heads * (key + value)  # bytes: of 16 bits
        return self.size + context * a_token + BESIDE

    def _value(self, name: str) -> int:
        return next((n for key, n in self.head.items() if key.endswith(f".{name}")), 0)


def _head(file: BinaryIO) -> dict[str, int]:
    """The numbers of a GGUF file's head by name (github.com/ggml-org/ggml, docs/gguf.md)."""
    if file.read(4) != b"GGUF" or _number(file, "<I") not in {2, 3}:
        raise ValueError
    _number(file, "<Q")  # tensors
    read = {}
    for _ in range(min(_number(file, "<Q"), MAX_ENTRIES)):
        name = _text(file).decode(errors="replace")
        kind = _number(file, "<I")
        if kind in _NUMBERS:
            read[name] = _number(file, _NUMBERS[kind])
        else:
            _skip(file, kind)
    return read


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        _text(file)
    elif kind == _LIST:
        of, count = _number(file, "<I"), _number(file, "<Q")
        if count > MAX_ENTRIES or of == _LIST:
            raise ValueError
        if of == _TEXT:
            for _ in range(count):
                _text(file)
        else:
            file.seek(_SIZES[of] * count, os.SEEK_CUR)
    else:
        file.seek(_SIZES[kind], os.SEEK_CUR)


def _text(file: BinaryIO) -> bytes:
    length = _number(file, "<Q")
    if length > MAX_TEXT:
        raise ValueError
    return file.read(length)


def _number(file: BinaryIO, form: str) -> int:
    value: int = struct.unpack(form, file.read(struct.calcsize(form)))[0]
    return value


def free_memory() -> int:
    """Bytes that programs may take without others being moved to disk."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def fitting_context(model: ModelFile) -> int:
    """Return the context length, in tokens, for which a model takes at most half the free memory.

    Raises ModelFileError if none of CONTEXTS fits.
    """
    free = free_memory()
    contexts = model.contexts()
    for context in contexts:
        if model.memory(context) <= SHARE * free:
            return context
    raise ModelFileError(
        f"{model.path.name} needs about {model.memory(contexts[-1]) / 1e9:.1f} GB of memory with a "
        f"context of {contexts[-1]} tokens; half of what is free here is "
        f"{SHARE * free / 1e9:.1f} GB. Choose a smaller model, or one of fewer bits."
    )


def serve(path: Path, name: str, port: int) -> None:
    """Serve until the process is ended."""
    import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

    die_with_parent(os.getppid())
    os.nice(10)
    threads = max(1, len(os.sched_getaffinity(0)) - 1)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.n_ctx = fitting_context(ModelFile.read(path))
    params.n_parallel = 1
    # What is reckoned is all that is taken: a mapped file would stand in memory beside the weights
    # in the order that the processor reads, and former prompts would be kept, up to 8 GB of them.
    params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.ui = False
    server = xllamacpp.Server(params)  # ends with the process
    print(f"Serving {name} at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
