"""Fixtures of the tests of sparse attention."""

from collections.abc import Callable
from typing import Any

import pytest
import triton.language as tl
from triton.runtime import interpreter


@pytest.fixture(autouse=True)
def _patched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To run a kernel, Triton's interpreter replaces the functions of its language. It looks for
    them again at every call of a helper, which takes a third of its time.
    """
    patch: Callable[..., Any] = interpreter._patch_lang

    def patch_once(function: Any) -> Any:
        languages = [one for one in function.__globals__.values() if one is tl or one is tl.core]
        if languages and not any(tl.core.is_builtin(one.load) for one in languages):
            return interpreter._LangPatchScope()  # by the launch of the kernel
        return patch(function)

    monkeypatch.setattr(interpreter, "_patch_lang", patch_once)
