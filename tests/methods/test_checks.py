"""Of every method: each row of its table of checks holds, and fails when what it guards is broken.

A method's mutations stand in `tests/methods/<method>/mutations.py`, as `MUTATIONS`.
"""

import importlib
import re
import warnings
from collections.abc import Iterator

import pytest

from methods import registry
from methods.__main__ import main
from methods.spec import Case
from tests.methods.mutation import Mutation

# Rows that train a model take minutes: test_first_commands.py.
TRAINED = {"null_rate", "bottleneck", "monitors", "ordering"}
ROWS = [
    (slug, check)
    for slug in registry.slugs()
    for check in registry.get(slug).checks
    if check.name not in TRAINED
]


def mutations(slug: str) -> list[Mutation]:
    found: list[Mutation] = importlib.import_module(f"tests.methods.{slug}.mutations").MUTATIONS
    return found


BROKEN = [(slug, mutation) for slug in registry.slugs() for mutation in mutations(slug)]


def cases(slug: str, name: str) -> Iterator[Case]:
    check = next(check for check in registry.get(slug).checks if check.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from registry.load(slug, check.entry)("cpu")


@pytest.mark.parametrize("slug", [slug for slug in registry.slugs() if registry.get(slug).example])
def test_the_command_holds_the_example_against_its_shape_comments(slug, capfd):
    """The row that the command adds to a method's own, which no test above runs."""
    assert main(["check", slug, "--only", "trace"]) == 0, capfd.readouterr().out


@pytest.mark.parametrize(("slug", "check"), ROWS, ids=lambda value: getattr(value, "name", value))
def test_holds(slug, check):
    found = list(cases(slug, check.name))
    assert found
    assert [case for case in found if not case.passed] == []
    # What is told of a bound is the bound, and no other has crept in.
    told = {0.0, *map(float, re.findall(r"\.?\d[\d.e-]*", check.bound))}
    held = {c.bound for c in found if c.relation != "==" and not isinstance(c.bound, bool)}
    assert held <= told


@pytest.mark.parametrize(
    ("slug", "mutation"), BROKEN, ids=lambda value: getattr(value, "name", value)
)
def test_fails_when_broken(slug, mutation, monkeypatch):
    """Stop as soon as the check has failed as it must."""
    mutation.breaks(monkeypatch)
    failed = []
    awaited, open_yet = set(mutation.fails), set(mutation.holds)
    for case in cases(slug, mutation.check):
        open_yet.discard(case.label)  # of a beginning of several labels all are waited for
        if not case.passed:
            failed.append(case.label)
            awaited -= {beginning for beginning in awaited if case.label.startswith(beginning)}
        if failed and not awaited and not open_yet:
            break
    assert failed
    assert not awaited, failed
    for beginning in mutation.holds:
        assert not any(label.startswith(beginning) for label in failed), failed


@pytest.mark.parametrize("slug", registry.slugs())
def test_every_row_has_a_mutation(slug):
    rows = {check.name for of, check in ROWS if of == slug}
    module = importlib.import_module(f"tests.methods.{slug}.mutations")
    compiled = getattr(module, "COMPILED", [])  # where there is a compiler: beside the kernel
    assert rows == {mutation.check for mutation in [*mutations(slug), *compiled]}
