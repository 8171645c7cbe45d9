"""Finds the methods: every folder of this package that holds a ``spec.py``.

Looking costs a directory listing; a method's specification is imported when it is asked for, its
model code when it is run. Only the standard library is imported here: the site, the command line
and the workers start with this module.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import methods
from methods.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from methods.spec import Benchmark, Method

__all__ = ["UnknownNameError", "all_methods", "find", "folder", "get", "load", "slugs"]


def slugs() -> tuple[str, ...]:
    """The names of all methods, sorted."""
    found = {
        spec.parent.name for root in methods.__path__ for spec in Path(root).glob("[a-z]*/spec.py")
    }
    return tuple(sorted(found))


def folder(slug: str) -> Path:
    """The folder of the method ``slug``; raises :class:`UnknownNameError`."""
    for root in methods.__path__:
        if (Path(root) / slug / "spec.py").is_file() and slug in slugs():
            return Path(root) / slug
    raise UnknownNameError("method", slug, slugs())


@cache
def get(slug: str) -> Method:
    """The method called ``slug``; raises :class:`UnknownNameError` suggesting the nearest."""
    if slug not in slugs():
        raise UnknownNameError("method", slug, slugs())
    method: Method = importlib.import_module(f"methods.{slug}.spec").METHOD
    if method.slug != slug:
        raise ValueError(f"methods/{slug}/spec.py calls itself {method.slug!r}")
    return method


def all_methods() -> tuple[Method, ...]:
    """Every method's specification, by name."""
    return tuple(get(slug) for slug in slugs())


def find(name: str) -> tuple[Method, Benchmark]:
    """Method and benchmark of ``"method.benchmark"``; raises :class:`UnknownNameError`."""
    slug, dot, benchmark = name.partition(".")
    method = get(slug)
    if not dot:
        known = (f"{slug}.{found.slug}" for found in method.benchmarks)
        raise UnknownNameError("benchmark", name, known)
    return method, method.benchmark(benchmark)


def load(slug: str, entry: str) -> Callable[..., Any]:
    """The function that ``"module:function"`` names inside the method ``slug``; imports torch."""
    module, _, function = entry.partition(":")
    loaded: Callable[..., Any] = getattr(
        importlib.import_module(f"methods.{slug}.{module}"), function
    )
    return loaded
