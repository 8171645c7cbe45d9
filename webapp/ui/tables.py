"""Tables of words that lie as TOML beside the module that reads them."""

import tomllib
from pathlib import Path
from typing import Any


def table(module: str, name: str) -> dict[str, Any]:
    """The file `name` in the folder of a module, which names itself by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))
