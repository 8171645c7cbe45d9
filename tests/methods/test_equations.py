"""Every public function that computes with tensors says which equation, and of what shapes."""

import ast
import re
from pathlib import Path

import pytest

from methods import registry

# What measures, checks or shows the mathematics has none of its own.
BESIDE = ("bench", "check", "definitions", "example", "gate", "picture", "spec")
METHODS = Path(registry.__file__).parent


def public(body: list[ast.stmt], owner: str = "") -> list[tuple[str, ast.FunctionDef]]:
    """Functions, and methods of classes, whose names do not begin with an underscore."""
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            if isinstance(node, ast.ClassDef):
                found += public(node.body, f"{node.name}.")
            else:
                found.append((owner + node.name, node))
    return found


def computes(function: ast.FunctionDef) -> bool:
    """Return whether it gives tensors, or something else that was computed from tensors."""
    returns = ast.unparse(function.returns) if function.returns else "None"
    takes = any(a.annotation and "Tensor" in ast.unparse(a.annotation) for a in arguments(function))
    return "Tensor" in returns or (takes and returns not in {"None", "str", "bool"})


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return function.args.posonlyargs + function.args.args + function.args.kwonlyargs


def nameless(path: Path) -> list[str]:
    computing = [pair for pair in public(ast.parse(path.read_text()).body) if computes(pair[1])]
    return [name for name, function in computing if "Equation" not in said(function)]


def shapeless(path: Path) -> list[str]:
    """Those of which no docstring gives a shape: letters in brackets, or that it is a scalar."""
    computing = [pair for pair in public(ast.parse(path.read_text()).body) if computes(pair[1])]
    shape = re.compile(r"\([^()]*\)|scalar")
    return [name for name, function in computing if not shape.search(said(function))]


def said(function: ast.FunctionDef) -> str:
    return ast.get_docstring(function) or ""


@pytest.mark.parametrize("slug", registry.slugs())
def test_every_function_that_computes_names_its_equation(slug: str) -> None:
    files = [p for p in (METHODS / slug).rglob("*.py") if not p.name.startswith(BESIDE)]
    assert files
    missing = [f"{path.name}: {name}" for path in files for name in nameless(path)]
    assert not missing


@pytest.mark.parametrize("slug", ["token_pruning", "seps", "concept_lm"])
def test_every_function_that_computes_names_shapes(slug: str) -> None:
    files = [p for p in (METHODS / slug).rglob("*.py") if not p.name.startswith(BESIDE)]
    missing = [f"{path.name}: {name}" for path in files for name in shapeless(path)]
    assert not missing


def test_one_that_names_none_is_found(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(
        'def double(x: Tensor) -> Tensor:\n    """Twice."""\n'
        'def half(x: Tensor) -> Tensor:\n    """Half.\n\n    Equation: $x / 2$\n    """\n'
        "def _private(x: Tensor) -> Tensor: ...\n"
        "def tell(x: Tensor) -> str: ...\n"
        "class Layer:\n    def forward(self, x: Tensor) -> Tensor: ...\n"
    )
    assert nameless(path) == ["double", "Layer.forward"]
    assert shapeless(path) == ["double", "half", "Layer.forward"]
