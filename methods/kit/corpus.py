"""Text as bytes: the Python standard library's source, which every machine has, or a folder."""

import hashlib
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class Corpus:
    """Byte ids to train on and to be judged by; whole files lie on one side or the other."""

    train: Tensor  # (n,) uint8
    valid: Tensor  # (n,) uint8
    digest: str  # of both, so that results on different Python versions are told apart

    def batch(self, step: int, rows: int, length: int, seed: int = 0) -> Tensor:
        r"""The training batch of a step, (rows, length): the same for every model compared.

        Equation: $x_{bi} = \mathrm{train}_{s_b + i}, \quad
        s_b \sim \mathrm{Uniform}\{0, \dots, n - \mathrm{length} - 1\}$

        Raises:
            InputError: when the windows are not shorter than the text.
        """
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(max(1, len(self.train) - length), (rows,), generator=generator)
        return self._cut(self.train, starts, length)

    def judged(self, rows: int, length: int) -> Tensor:
        r"""Evenly spread held-out windows: (rows, length).

        Equation: $x_{bi} = \mathrm{valid}_{s_b + i}, \quad
        s_b = \lfloor \frac{b \, (n - \mathrm{length} - 1)}{\mathrm{rows} - 1} \rfloor$

        Raises:
            InputError: when the windows are not shorter than the text.
        """
        starts = torch.linspace(0, max(0, len(self.valid) - length - 1), rows).long()
        return self._cut(self.valid, starts, length)

    @staticmethod
    def _cut(text: Tensor, starts: Tensor, length: int) -> Tensor:
        if len(text) <= length:
            raise InputError(f"windows of {length} do not fit a text of {len(text)}")
        return text[starts[:, None] + torch.arange(length)].long()


@cache
def stdlib() -> Corpus:
    """Source of this Python's standard library: every tenth file is held out.

    Raises:
        InputError: when this Python comes without its sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "test", "tests", "idlelib"}
    files = [p for p in root.rglob("*.py") if not left_out & set(p.relative_to(root).parts)]
    return of_files(files, f"standard library sources under {root}", limit=8_000_000)


def folder(path: str) -> Corpus:
    """Every file under a folder of one's own; raises :class:`InputError` where there is none."""
    return of_files([p for p in Path(path).rglob("*") if p.is_file()], f"text under {path!r}")


def of_files(paths: list[Path], what: str, limit: int = 1 << 30) -> Corpus:
    """A tenth is held out: every tenth file, or the end of the text where there are fewer.

    Raises:
        InputError: when there is too little text to split, or a file that cannot be read.
    """
    texts, size = [], 0
    for path in sorted(paths):
        if size > limit:
            break
        try:
            texts.append(path.read_bytes())
        except OSError as problem:
            raise InputError(f"{path} cannot be read: {problem}") from problem
        size += len(texts[-1])
    if len(texts) < 10:
        whole = b"".join(texts)
        texts = [whole[: len(whole) * 9 // 10], *[b""] * 8, whole[len(whole) * 9 // 10 :]]
    valid = b"".join(texts[9::10])
    train = b"".join(text for i, text in enumerate(texts) if i % 10 != 9)
    if not valid or not train:
        raise InputError(f"no {what} to train on and to be judged by")
    digest = hashlib.sha256(train + valid).hexdigest()[:12]
    return Corpus(_as_bytes(train), _as_bytes(valid), digest)


def _as_bytes(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)
