"""A model on this machine: what an administrator wants `up` to run, and how far that is.

The page writes what is wanted, and the child of `up` that runs it (`workers.up.model_here`) what it
does. Each file has one writer and is replaced whole, so a restart of either goes on from them.
"""

import os
from pathlib import Path
from typing import Literal

from django.conf import settings
from pydantic import BaseModel, ValidationError

from assay_common.files import write_whole

STARTER = "ASSAY_STARTS_MODELS"  # set by `up` for the site that it serves


State = Literal["waiting", "fetching", "starting", "serving", "paused", "failed"]


class StateOfModel(BaseModel):
    """How far a model is; `done` and `total` are bytes of its file, `reason` is why it failed."""

    model: str = ""
    state: State = "waiting"
    done: int = 0
    total: int = 0
    reason: str = ""

    @property
    def under_way(self) -> bool:
        """Whether it goes on without anybody's doing."""
        return bool(self.model) and self.state not in {"serving", "paused", "failed"}


def can_be_started() -> bool:
    """Whether `up` looks after this site, and so can start a model."""
    return STARTER in os.environ


def wanted() -> str:
    """The model that is wanted; empty if none is."""
    try:
        return _wanted().read_text("utf-8")
    except OSError:
        return ""


def want(model: str) -> None:
    """Ask for a model, in the place of another, or for none. Raises OSError: nothing is changed."""
    write_whole(_wanted(), model.encode())
    _told().unlink(missing_ok=True)  # why the same one failed before


def standing() -> StateOfModel:
    """How far the wanted model is."""
    model = wanted()
    try:
        told = StateOfModel.model_validate_json(_told().read_bytes())
    except (OSError, ValidationError):
        told = StateOfModel()
    return told if told.model == model else StateOfModel(model=model)


def tell(standing: StateOfModel) -> None:
    """What became of the wanted model. Raises OSError."""
    write_whole(_told(), standing.model_dump_json().encode())


def _wanted() -> Path:
    return Path(settings.DATA_DIR) / "model-wanted"


def _told() -> Path:
    return Path(settings.DATA_DIR) / "model-here.json"
