"""A model that an administrator asks `up` to run on this machine, and its state.

The page writes the request, and a child of `up` (`workers.up.local_model`) the state. Each file has
one writer and is replaced whole, so a restart of either goes on from them.
"""

import os
from pathlib import Path
from typing import Literal

from django.conf import settings
from pydantic import BaseModel, ValidationError

from assay_common.files import write_whole

STARTER = "ASSAY_STARTS_MODELS"  # set by `up` for the site that it serves

State = Literal["waiting", "fetching", "starting", "serving", "paused", "failed"]


class ModelStatus(BaseModel):
    """The state of a model; `reason` is why it failed."""

    model: str = ""
    state: State = "waiting"
    reason: str = ""

    @property
    def under_way(self) -> bool:
        """True while the state changes without anybody's doing."""
        return bool(self.model) and self.state not in {"serving", "paused", "failed"}


def can_be_started() -> bool:
    """True if `up` serves this site, and so can start a model."""
    return STARTER in os.environ


def requested() -> str:
    """Return the model that is requested, or ""."""
    try:
        return _request().read_text("utf-8")
    except OSError:
        return ""


def request(model: str) -> None:
    """Ask for a model in the place of another, or for none. Raises OSError: nothing is changed."""
    write_whole(_request(), model.encode())
    _status().unlink(missing_ok=True)  # why the same one failed before


def status() -> ModelStatus:
    """Return the state of the requested model."""
    model = requested()
    try:
        reported = ModelStatus.model_validate_json(_status().read_bytes())
    except (OSError, ValidationError):
        reported = ModelStatus()
    return reported if reported.model == model else ModelStatus(model=model)


def report(status: ModelStatus) -> None:
    """Store the state of the requested model. Raises OSError."""
    write_whole(_status(), status.model_dump_json().encode())


def _request() -> Path:
    return Path(settings.DATA_DIR) / "model-wanted"


def _status() -> Path:
    return Path(settings.DATA_DIR) / "model-here.json"
