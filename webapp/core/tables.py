"""Reads TOML tables that lie beside the modules that use them."""

import tomllib
from pathlib import Path
from typing import Any


def table(module: str, name: str) -> dict[str, Any]:
    """The content of the file `name` in the folder of a module, given by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))
