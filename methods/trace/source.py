"""A method's source as text: its statements, its equations, its shape comments. No torch."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..protocol.trace import code_of

_SHAPE = re.compile(r"\(([^()]*)\)")
# One, or several with commas between them, that no word touches and no product or list goes on.
_SHAPES = re.compile(r"\([^()]*\)(?:, \([^()]*\))*+(?=$|[ ,:;.])(?! [@x*] |, \()")
_NAMED = re.compile(r"[^\W\d]\w*")
# Names and numbers, and sums and products of them: nothing that could do anything when evaluated.
_SIZE = re.compile(r"\.\.\.|\w+( *(\+|-|\*|//) *\w+)*")


@dataclass(frozen=True)
class Shape:
    """Sizes of one tensor as a comment writes them: names, numbers, sums and products, an ellipsis.

    One alone holds for every tensor that the line binds.
    """

    sizes: tuple[str, ...]

    def __str__(self) -> str:
        return f"({', '.join(self.sizes)}{',' if len(self.sizes) == 1 else ''})"

    def disagrees(self, recorded: tuple[int, ...], named: dict[str, int]) -> bool:
        """Return whether a tensor has another shape; names that `named` lacks are added to it."""
        sizes = list(self.sizes)
        if "..." in sizes:  # it stands for all that the others leave
            cut, others = sizes.index("..."), len(sizes) - 1
            sizes[cut : cut + 1] = map(str, recorded[cut : cut + len(recorded) - others])
        if len(sizes) != len(recorded):
            return True
        for size, number in zip(sizes, recorded, strict=True):
            if _NAMED.fullmatch(size) and size not in named:
                named[size] = number
            elif (expected := _evaluate(size, named)) is not None and expected != number:
                return True
        return False


@dataclass
class Statement:
    """A statement, or the head of a compound one: where it stands, what it may bind."""

    first: int
    last: int
    names: tuple[str, ...] = ()
    returns: bool = False
    shapes: tuple[Shape, ...] = ()


@dataclass
class SourceFile:
    """A file, by line."""

    text: str
    statements: dict[int, Statement] = field(default_factory=dict)


def read(path: Path) -> SourceFile:
    """Look at a file; raises SyntaxError where it is no Python."""
    text = path.read_text()
    tree = ast.parse(text)
    source = SourceFile(text)
    code = frozenset(code_of(text)[0])
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            statement = _statement(node, code)
            # Whatever stands inside another statement comes after it, and has its lines.
            lines = range(statement.first, statement.last + 1)
            source.statements |= dict.fromkeys(lines, statement)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        beside = source.statements.get(token.start[0])
        if beside and token.type == tokenize.COMMENT:
            beside.shapes = parse_comment(token.string) or beside.shapes
    return source


def _statement(node: ast.stmt, code: frozenset[int]) -> Statement:
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if isinstance(body, list) and body:  # of a compound statement only the head
        head = range(node.lineno, body[0].lineno)  # and comments between it and the body
        last = max((line for line in head if line in code), default=node.lineno)
    targets: list[ast.expr] = getattr(node, "targets", [])
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars]
    names = tuple(name for target in targets for name in _names(target))
    return Statement(node.lineno, last, names, isinstance(node, ast.Return))


def _names(target: ast.expr) -> Iterator[str]:
    """The variables that an assignment binds, ``name`` or ``object.attribute``, in their order."""
    for part in ast.walk(target):
        if isinstance(getattr(part, "ctx", None), ast.Store):
            if isinstance(part, ast.Name):
                yield part.id
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield f"{part.value.id}.{part.attr}"


def parse_comment(comment: str) -> tuple[Shape, ...]:
    """The shapes that a comment states: `# (B, N) bool`, `# (n, r) @ (r,) -> (n,)`, `# (B,) each`.

    None where it is prose: every size must be a number, a name, a sum or product of those, or an
    ellipsis.
    """
    match = _SHAPES.match(comment.lstrip("# ").rpartition("-> ")[2])
    shapes = []
    for inside in _SHAPE.findall(match[0]) if match else ():
        sizes = [size.strip() for size in inside.split(",")]
        if sizes[-1] == "":
            sizes.pop()
        if not all(_SIZE.fullmatch(size) for size in sizes) or sizes.count("...") > 1:
            return ()
        shapes.append(Shape(tuple(sizes)))
    return tuple(shapes)


def _evaluate(size: str, named: Mapping[str, int]) -> int | None:
    """Evaluate a size; None where one of its names has no value yet."""
    try:
        return int(eval(size, {"__builtins__": {}}, dict(named)))  # noqa: S307 - see _SIZE
    except NameError:
        return None
