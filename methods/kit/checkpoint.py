"""The one checkpoint format: a file is whole or absent, and fits the run that reads it or fails.

A checkpoint holds its format, what the run was (`about`: configuration, plan), the state of each
named part (modules without their frozen weights, optimisers) and the history of the training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from zipfile import ZipFile

import torch
from torch import Tensor, nn

from ..errors import InputError

FORMAT = 2
Part = nn.Module | torch.optim.Optimizer


class CheckpointError(InputError):
    """The file is no checkpoint, or of another format or run; the message says what to do."""


@dataclass
class Checkpoint:
    """A file that a training writes every so many steps and resumes from, if `about` agrees."""

    path: Path
    about: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    every: int = 100

    def of(self, parts: Mapping[str, Part], **about: Any) -> Self:
        """Return the checkpoint with further parts of a training, and more that must agree."""
        every = {**self.parts, **parts}
        return replace(self, parts=every, about={**self.about, **about, "parts": sorted(every)})

    def save(self, history: Mapping[str, Any]) -> None:
        """Write every part and the history."""
        states = {name: state_of(part) for name, part in self.parts.items()}
        save_state(self.path, {"about": dict(self.about), "parts": states, "history": history})

    def resume(self) -> dict[str, Any]:
        """Load every part; the history so far, empty where there is no file yet.

        A training that has ended may go on with more steps, at the rates of the longer plan; one
        that was interrupted goes on as it was planned.

        Raises:
            CheckpointError: for a file that is none, or of another run: naming what differs.
        """
        if not self.path.exists():
            return {}
        state = read_state(self.path)
        about, changed = dict(state.get("about", {})), []
        planned, steps = about.get("plan"), self.about.get("plan", {}).get("steps", 0)
        if planned and planned["steps"] < steps:
            ended = len(state["history"]["loss"]) == planned["steps"]
            about["plan"] = planned | {"steps": steps if ended else planned["steps"]}
        for what, ours in self.about.items():
            if (theirs := about.get(what)) != ours:
                changed.append(f"{what}: {_changes(theirs, ours)}")
        if changed:
            raise CheckpointError(f"{self.path.name} was made with another {'; '.join(changed)}")
        try:
            for name, part in self.parts.items():
                if isinstance(part, nn.Module):
                    load_weights(part, state["parts"][name], self.path.name)
                else:
                    part.load_state_dict(state["parts"][name])
            return dict(state["history"])
        except CheckpointError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.path.name} is damaged: {error!r}") from error


def kept_in(folder: str, name: str) -> Checkpoint | None:
    """The checkpoint of the training called `name` in a folder; None without a folder."""
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Checkpoint(Path(folder) / f"{name}.pt")


def state_of(part: Part) -> dict[str, Any]:
    """A part's state; of a module trainable parameters and buffers, not what is frozen."""
    if not isinstance(part, nn.Module):
        return part.state_dict()
    # Tied weights under each of their names: a language model's head is its embedding.
    every = part.named_parameters(remove_duplicate=False)
    frozen = {name for name, p in every if not p.requires_grad}
    return {name: t for name, t in part.state_dict().items() if name not in frozen}


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a file of this format, all at once; raises :class:`CheckpointError`, as for no room."""
    partial = path.with_suffix(path.suffix + ".partial")
    try:
        with partial.open("wb") as stream:  # torch's own writer hides the system's error
            torch.save({"format": FORMAT, **state}, stream)
        partial.replace(path)
    except (OSError, RuntimeError) as problem:
        partial.unlink(missing_ok=True)
        raise CheckpointError(f"{path} cannot be written, and is as it was: {problem}") from problem


def read_state(path: Path) -> dict[str, Any]:
    """Read a file that `save_state` wrote; raises :class:`CheckpointError`."""
    try:
        with ZipFile(path) as archive:  # torch.load does not compare the checksums that it wrote
            if damaged := archive.testzip():
                raise ValueError(f"{damaged} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises whatever its unpickler meets
        raise CheckpointError(f"{path.name} is not a checkpoint: {error}") from error
    version = state.get("format") if isinstance(state, dict) else None
    if version != FORMAT:
        raise CheckpointError(
            f"{path.name} is a checkpoint of format {version}, this code reads {FORMAT}; "
            "train again or use the version that wrote it"
        )
    return dict(state)


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Load what `state_of` took from a module of the same names and shapes.

    Raises:
        CheckpointError: naming the first tensor that differs, also in kind, or holds NaN. Another
            precision is cast.
    """
    expected = state_of(module)
    for key in sorted(expected.keys() | weights.keys()):
        if key not in expected or key not in weights:
            where = "not in it" if key in expected else "too much in it"
            raise CheckpointError(f"{name} is of another model: {key} is {where}")
        ours, theirs = expected[key], weights[key]
        if ours.shape != theirs.shape:
            raise CheckpointError(
                f"{name} is of another shape: {key} is {tuple(theirs.shape)} there and "
                f"{tuple(ours.shape)} here; use the model it was trained for"
            )
        if ours.is_floating_point() != theirs.is_floating_point():
            types = f"{theirs.dtype} there and {ours.dtype} here"
            raise CheckpointError(f"{name} is of another type: {key} is {types}")
        if not torch.isfinite(theirs).all():
            raise CheckpointError(f"{name}: {key} holds NaN or infinity; the file is damaged")
    module.load_state_dict(weights, strict=False)


def _changes(theirs: object, ours: object) -> str:
    """``rate 0.1, now 0.2`` for mappings; the two values for the rest."""
    if not isinstance(theirs, Mapping) or not isinstance(ours, Mapping):
        return f"{theirs!r}, now {ours!r}"
    keys = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
    return ", ".join(f"{key} {theirs.get(key)!r}, now {ours.get(key)!r}" for key in keys)
