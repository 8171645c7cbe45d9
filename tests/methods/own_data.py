"""Commands on one's own data, called as people call them, and a training that is interrupted."""

from collections.abc import Callable
from typing import Any

from methods.__main__ import main


def call(name: str, method: str, values: dict[str, object]) -> int:
    """`python -m methods NAME METHOD --set …`: its exit code."""
    pairs = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    return main([name, method, *pairs, "--device", "cpu"])


def interrupted(train: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A training that somebody stops after step `at`, once that is told."""

    def trained(*args: Any, on_step: Callable[..., None], **kwargs: Any) -> Any:
        def stop(step: int, history: object) -> None:
            on_step(step, history)
            if step == at:
                raise KeyboardInterrupt

        return train(*args, on_step=stop, **kwargs)

    return trained
