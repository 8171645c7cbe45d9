"""Finds the methods: every folder of this package that holds a ``spec.py``, and installed ones.

An installed distribution brings a method by an entry point of the group ``assay.methods``: its name
is the method's, its value the package with the ``spec.py``. A folder here goes before it. A package
whose specification raises, exits, hangs or is none is left out, with a warning.

Looking costs a directory listing; a method's specification is imported when it is asked for, its
model code when it is run. Only the standard library is imported here: the site, the command line
and the workers start with this module.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import warnings
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from .errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .spec import Benchmark, Method

__all__ = ["UnknownNameError", "all_methods", "find", "folder", "get", "load", "package", "slugs"]

ENTRY_POINTS = "assay.methods"
LOAD_SECONDS = 10.0  # for the specification of another's package
PACKAGE = __name__.rpartition(".")[0]


def slugs() -> tuple[str, ...]:
    """The names of all methods, sorted."""
    return tuple(sorted({*_folders(), *_installed()}))


def package(slug: str) -> str:
    """The package that holds the method ``slug``; raises :class:`UnknownNameError`."""
    if slug in _folders():
        return f"{PACKAGE}.{slug}"
    if slug in _installed():
        return _installed()[slug]
    raise UnknownNameError("method", slug, slugs())


def folder(slug: str) -> Path:
    """The folder of the method ``slug``; raises :class:`UnknownNameError`."""
    found = importlib.util.find_spec(package(slug))
    if found is None or not found.submodule_search_locations:
        raise InputError(f"the entry point of {slug!r} names {package(slug)!r}: no package")
    return Path(found.submodule_search_locations[0])


def _folders() -> dict[str, Path]:
    """Folders of this package, and of those in ``ASSAY_METHODS_PATH``, by name."""
    found: dict[str, Path] = {}
    for root in sys.modules[PACKAGE].__path__:
        for spec in Path(root).glob("[a-z]*/spec.py"):
            found.setdefault(spec.parent.name, spec.parent)
    return found


@cache
def _installed() -> dict[str, str]:
    """Packages of installed distributions, by the name of the method they bring."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - costs more than this module

    packages = {}
    for entry in entry_points(group=ENTRY_POINTS):
        if problem := _problem(entry.name, entry.value):
            warnings.warn(
                f"The method {entry.name!r} of the installed package {entry.value!r} is left out: "
                f"{problem}",
                stacklevel=2,
            )
        else:
            packages[entry.name] = entry.value
    return packages


def _problem(slug: str, package: str) -> str:
    """Import the specification of another's package; return why it is of no use, or ""."""
    problems = [f"its specification was not imported within {LOAD_SECONDS:.0f} s"]

    def load() -> None:
        try:
            method = importlib.import_module(f"{package}.spec").METHOD
            from .spec import Method  # noqa: PLC0415 - costs more than this module

            if not isinstance(method, Method):
                raise TypeError(f"its METHOD is a {type(method).__name__}, no Method")
            if method.slug != slug:
                raise ValueError(f"its specification calls itself {method.slug!r}")
        except BaseException as error:  # sys.exit, too: whatever another's package does, ours go on
            problems[0] = f"{type(error).__name__}: {error}"
        else:
            problems[0] = ""

    loading = Thread(target=load, name=f"load {slug}", daemon=True)
    with redirect_stdout(sys.stderr):  # standard output may carry JSON or a protocol
        loading.start()
        loading.join(LOAD_SECONDS)
    return problems[0]


@cache
def get(slug: str) -> Method:
    """The method called ``slug``; raises :class:`UnknownNameError` suggesting the nearest."""
    method: Method = importlib.import_module(f"{package(slug)}.spec").METHOD
    if method.slug != slug:
        raise ValueError(f"{package(slug)}.spec calls itself {method.slug!r}, not {slug!r}")
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
    loaded: Callable[..., Any] = pkgutil.resolve_name(f"{package(slug)}.{entry}")
    return loaded
