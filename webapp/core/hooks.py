"""Hooks: what an app asks of those above it, which it must not know.

The app that asks declares a hook beside the place where it asks; the one that answers says so in
its `AppConfig.ready`. So a hook and all that answer it are found by its name, it has one answer at
most, and it holds without any: a page of an app alone works.

    @Hook
    def shelf_of(reader: User, keys: Sequence[int], /) -> Shelf:
        return Shelf()                            # while no app answers

    personal.shelf_of.answer(queries.shelf_of)    # in webapp/library/apps.py
"""

from collections.abc import Callable, Iterator
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class AnsweredTwiceError(Exception):
    """Two apps answer one hook."""


class Hook(Generic[P, R]):
    """A function of one app that another may provide; its own body is the default."""

    def __init__(self, default: Callable[P, R]) -> None:
        self._default = default
        self._answer: Callable[P, R] | None = None
        self.__doc__ = default.__doc__

    def answer(self, function: Callable[P, R]) -> None:
        """Take `function` from now on. Raises AnsweredTwiceError if there is another."""
        if self._answer not in {None, function}:
            raise AnsweredTwiceError(f"{self._answer} and {function}")
        self._answer = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The answer of the app that implements the hook."""
        return (self._answer or self._default)(*args, **kwargs)


class NamedHooks(Generic[P, R]):
    """Functions that other apps provide, each under a name of its own."""

    def __init__(self) -> None:
        self._answers: dict[str, Callable[P, R]] = {}

    def answer(self, name: str, function: Callable[P, R]) -> None:
        """Take `function` for `name`. Raises AnsweredTwiceError if there is another."""
        if self._answers.setdefault(name, function) is not function:
            raise AnsweredTwiceError(f"{name}: {self._answers[name]} and {function}")

    def __getitem__(self, name: str) -> Callable[P, R]:
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)
