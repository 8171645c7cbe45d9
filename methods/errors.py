"""Errors by who has to act; each class carries the command line's exit code."""

import difflib
from collections.abc import Iterable
from typing import Literal

FailedKind = Literal["input", "check", "memory", "error"]


class MethodsError(Exception):
    """Base of every error that is explained to the user without a traceback.

    ``kind`` is the failure kind of a run that it ends.
    """

    exit_code = 3
    kind: FailedKind = "error"


class CheckFailedError(MethodsError):
    """A correctness check missed its bound: no number of this run may be shown."""

    exit_code = 1
    kind = "check"


class InputError(MethodsError, ValueError):
    """The request cannot be fulfilled as it stands; the user can change it."""

    exit_code = 2
    kind: FailedKind = "input"


class UnknownNameError(InputError):
    """No method, benchmark or preset has this name; the message suggests the nearest."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
        super().__init__(f"no {what} is called {name[:80]!r}; {hint}")


class ParameterProblem:
    """One refused parameter: ``name``, what was ``given``, what is ``allowed``, the ``reason``."""

    def __init__(self, name: str, given: str, allowed: str, reason: str) -> None:
        self.name, self.given, self.allowed, self.reason = name, given, allowed, reason

    def __str__(self) -> str:
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{self.name}: {self.reason}{allowed}; given {self.given}"


class ParameterError(InputError):
    """A parameter is unknown or out of bounds; the message names it, its bounds and the value."""

    def __init__(self, problems: list[ParameterProblem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class NotEnoughMemoryError(InputError):
    """The run is estimated to need more memory than the device has free."""

    kind = "memory"

    def __init__(self, needed: int, available: int, device: str) -> None:
        super().__init__(
            f"about {needed / 2**30:.1f} GiB are needed on {device}, "
            f"{available / 2**30:.1f} GiB are free; choose smaller parameters"
        )
