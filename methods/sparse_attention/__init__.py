"""Sparse attention: chosen blocks, and grouped heads with windows and anchors.

Importing this package is free of torch: what it exports is loaded when it is first used.
"""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "api": ["sparse_attention"],
    "block_sparse": ["block_sparse_attention"],
    "config": ["SparseAttentionConfig"],
    "hugging_face": ["SparseCache", "choose"],
    "selectors": [
        "Antidiagonal", "BlockTopK", "ExactTopK", "Local3d", "MeanPooled", "PageBounds", "Radial",
        "Strided", "TopP", "VerticalSlash", "WindowAndSinks",
    ],
}  # fmt: skip
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
