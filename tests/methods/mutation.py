"""A way to break a method, and the row of its table of checks that must see it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Mutation:
    """`breaks` patches the method so that the check called `check` must fail.

    `fails` are beginnings of labels of cases of which each must be among the failed, `holds` of
    cases of which none may be.
    """

    check: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    fails: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.check}-{self.breaks.__name__}"
