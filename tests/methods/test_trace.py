"""Reading a method's code: comments, equations, the tracer, and whether what is kept is stale."""

import json
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from methods import registry
from methods.__main__ import main
from methods.protocol import Trace
from methods.protocol.trace import code_of
from methods.trace import source
from tests.methods import SHIPPED

CODE = '''
import torch


def main():
    """Doubles.

    Equation 2: $y = 2
    x$
    """
    B, n = 2, 3
    x = torch.ones(B, n)  # (B, n)
    pair = (x, x)
    a, b = pair  # (B, n) each
    for part in (x, x + 1):
        # Between the head, which binds, and the body.
        y = 2 * part  # (B, n), twice
    return torch.stack(
        [a, b, y]
    )  # (3, B, n)
'''
SPEC = """
from methods.spec import Case, Check, Method

METHOD = Method(
    slug="{slug}",
    title="Doubling",
    description="Doubles.",
    example="code:main",
    checks=(Check(name="one", title="one", bound="one", entry="code:one"),),
)
"""


@pytest.fixture
def method(tmp_path, monkeypatch, request):
    """A method of its own name, so that no test sees another's modules."""
    import methods

    slug = f"doubling_{abs(hash(request.node.name)) % 10**8}"
    folder = tmp_path / slug
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "spec.py").write_text(SPEC.format(slug=slug))
    (folder / "code.py").write_text(CODE)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    yield folder
    for name in [name for name in sys.modules if slug in name]:
        del sys.modules[name]
    registry.get.cache_clear()


@pytest.mark.parametrize(
    ("comment", "shapes"),
    [
        ("# (B, N) bool", ["(B, N)"]),
        ("# (B, T, K + 1), NULL last", ["(B, T, K + 1)"]),
        ("# (n, r) @ (r,) -> (n,)", ["(n,)"]),
        ("# (B, C), (B, N, C)", ["(B, C)", "(B, N, C)"]),
        ("# (..., K)", ["(..., K)"]),
        ("# ()", ["()"]),
        ("# (see below)", []),
        ("# (a) or b", ["(a,)"]),
        ("# (B, N.", []),
        ("# the mean over (B, N)", []),
    ],
)
def test_comments(comment, shapes):
    assert [str(shape) for shape in source.parse_comment(comment)] == shapes


@pytest.mark.parametrize(
    ("sizes", "found", "known", "wrong"),
    [
        ("(B, N)", (2, 3), {}, False),
        ("(B, B)", (2, 3), {}, True),
        ("(B, N)", (2, 3), {"N": 4}, True),
        ("(B, N + 1)", (2, 3), {"N": 2}, False),
        ("(B, N + 1)", (2, 3), {"N": 3}, True),
        ("(B, 2 * N)", (2, 3), {}, False),  # nothing is known of N
        ("(B, N)", (2, 3, 4), {}, True),
        ("(..., C)", (2, 3, 4), {"C": 4}, False),
        ("(B, ..., C)", (2,), {}, True),
        ("()", (), {}, False),
    ],
)
def test_shapes_against_tensors(sizes, found, known, wrong):
    (shape,) = source.parse_comment(f"# {sizes}")
    assert shape.disagrees(found, dict(known)) is wrong


def test_every_line_is_recorded(method, capsys):
    assert main(["read", method.name, "--json"]) == 0
    made = Trace.model_validate_json(capsys.readouterr().out)
    (file,) = made.files
    assert file.path == "code.py"
    (block,) = file.blocks
    assert (block.name, block.equations[0].number, block.equations[0].tex) == (
        "main",
        "2",
        "y = 2 x",
    )
    lines = CODE.splitlines()
    bound = {lines[one.line - 1].split("#")[0].strip(): one.tensors for one in file.lines}
    assert [one.name for one in bound["a, b = pair"]] == ["a", "b"]
    (y,) = bound["y = 2 * part"]
    assert (y.shape, y.dtype, y.low, y.high, y.others) == ((2, 3), "float32", 2.0, 4.0, 0)
    (returned,) = bound[")"]
    assert (returned.name, returned.shape) == ("return", (3, 2, 3))


@pytest.mark.parametrize("level", ["code", "equations", "shapes"])
def test_levels(method, capsys, level):
    assert main(["read", method.name, "--level", level]) == 0
    out = capsys.readouterr().out
    assert "x = torch.ones(B, n)" in out
    assert ("      (2) y = 2 x" in out) is (level == "equations")
    assert ("| y (2, 3) float32, 2 to 4" in out) is (level == "shapes")


def test_a_reading_is_stale_when_its_source_has_changed(method, capsys):
    assert main(["check", method.name, "--only", "trace"]) == 1
    assert "not of any file" in capsys.readouterr().out
    assert main(["read", method.name, "--write"]) == 0
    capsys.readouterr()
    assert main(["check", method.name, "--only", "trace"]) == 0
    (method / "code.py").write_text(CODE.replace("2 * part", "3 * part"))
    assert main(["check", method.name, "--only", "trace"]) == 1
    assert "not of code.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("# (B, n)\n", "# (n, B)\n", "x is (2, 3), the comment says (n, B) where n = 3, B = 2"),
        ("# (3, B, n)", "# (4, B, n)", "returned is (3, 2, 3), the comment says (4, B, n)"),
        ("# (B, n) each", "# (B, n), (B,)", "b is (2, 3), the comment says (B,)"),
    ],
)
def test_a_comment_that_disagrees_fails_the_check(method, capsys, right, wrong, why):
    (method / "code.py").write_text(CODE.replace(right, wrong))
    assert main(["read", method.name, "--write"]) == 0
    assert main(["check", method.name, "--only", "trace"]) == 1
    assert why in " ".join(capsys.readouterr().out.split())


def test_what_stood_in_a_buffer_before_is_no_value_of_it(method, capsys):
    code = """
        import torch

        def main():
            for _ in range(20):
                dirty = torch.full((64,), 1e30)
                del dirty
                out = torch.empty(64)
                out.zero_()
        """
    (method / "code.py").write_text(textwrap.dedent(code))
    assert main(["read", method.name, "--json"]) == 0
    (file,) = Trace.model_validate_json(capsys.readouterr().out).files
    (out,) = next(line.tensors for line in file.lines if line.tensors[0].name == "out")
    assert (out.low, out.high) == (None, None)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("size", "holds"), [("n + t", True), ("n", False)])
def test_a_number_that_a_loop_changes_means_what_it_is(method, size, holds):
    code = f"""
        import torch

        def main():
            n = 3
            for t in range(3):
                grown = torch.ones(n + t)  # ({size},)
        """
    (method / "code.py").write_text(textwrap.dedent(code))
    assert main(["read", method.name, "--write"]) == 0
    assert main(["check", method.name, "--only", "trace"]) == (0 if holds else 1)


def test_a_method_without_an_example(method, capsys):
    spec = method / "spec.py"
    spec.write_text(spec.read_text().replace('    example="code:main",\n', ""))
    assert main(["read", method.name]) == 2
    assert "names no example to read its code by" in capsys.readouterr().err


@pytest.mark.parametrize("slug", [one.slug for one in registry.all_methods() if one.example])
def test_what_is_kept_is_of_this_source(slug):
    kept = Trace.load(registry.folder(slug))
    assert kept is not None
    assert kept.stale(registry.folder(slug)) == [], f"python -m methods read {slug} --write"


def test_tracing_leaves_things_as_they_were(method, capsys):
    before = sys.gettrace()
    (method / "code.py").write_text(
        textwrap.dedent("def main():\n    raise ValueError('broken')\n")
    )
    assert main(["read", method.name]) == 3
    assert "broken" in capsys.readouterr().err
    assert sys.gettrace() is before


def test_the_file_is_read_line_by_line():
    """A change of one line is a change of few lines of the kept file."""
    folder = registry.folder("seps")
    kept = (folder / "trace.json").read_text()
    assert json.loads(kept)["method"] == "seps"
    assert max(len(line) for line in kept.splitlines()) < 4_000
    assert Path(folder / "example.py").is_file()


def test_words_may_change_and_lines_move(method, capsys):
    """Docstrings, comments and blank lines are no code: what was recorded moves along."""
    assert main(["read", method.name, "--write"]) == 0
    before = Trace.load(method)
    code = method / "code.py"
    text = (
        code.read_text().replace("Doubles.", "Doubles.\n\n    Twice.").replace("y = 2\n", "y = 3\n")
    )
    text = text.replace("    B, n = 2, 3\n", "\n    # Sizes.\n    B, n = 2, 3  # fixed\n\n")
    code.write_text(text)
    kept = Trace.load(method)
    assert kept.stale(method) == []
    found, wanted = kept.files[0], before.files[0]
    assert [one.line for one in found.lines] != [one.line for one in wanted.lines]
    lines = text.splitlines()
    assert [lines[one.line - 1] for one in found.lines] == [
        CODE.splitlines()[one.line - 1] for one in wanted.lines
    ]
    assert found.blocks[0].last == len(lines)
    assert found.blocks[0].equations[0].tex == "y = 3 x"
    code.write_text(text.replace("2 * part", "3 * part"))
    assert Trace.load(method).stale(method) == ["code.py"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "x = 1  # one\n\n", True),
        ('x = "#1"', 'x = "#2"', False),
        (
            'def f():\n    """A."""\n    return 1',
            'def f():\n    """B\n    C."""\n    return 1',
            True,
        ),
        ('x = """A"""', 'x = """B"""', False),
        ("not python (", "not python ((", False),
    ],
)
def test_what_is_code(one, other, same):
    assert (code_of(one)[1] == code_of(other)[1]) is same


@pytest.mark.parametrize("slug", SHIPPED)
def test_code_is_read_in_the_order_of_the_readme(slug):
    """Core first, then as listed."""
    folder = registry.folder(slug)
    paths = [file.path for file in Trace.load(folder).files]
    assert paths[0] == ("config.py" if slug == "sparse_attention" else "core.py")
    advice = (folder / "README.md").read_text("utf-8").partition("## Reading order")[2]
    listed = [path for path in paths if f"`{path.removesuffix('.py')}`" in advice]
    places = [advice.index(f"`{path.removesuffix('.py')}`") for path in listed]
    assert places == sorted(places)
    assert paths[: len(listed)] == listed
    assert len(listed) > 3
