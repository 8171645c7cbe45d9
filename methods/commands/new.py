"""``new``: write the skeleton of a method: it passes ``check`` and runs as it stands.

In a checkout of Assay it goes to ``methods/NAME`` and its mutations to ``tests/methods/NAME``. With
``--to DIR`` it becomes a package of its own in DIR, with a test and a ``pyproject.toml`` that
declares the entry point, so that ``pip install`` makes it a method here. With ``--paper ID`` it is
an implementation of that paper, and each ``--quote`` a number of it that a figure may stand beside.
"""

import argparse
import json
import re
import shlex
import sys
from pathlib import Path

from .. import registry
from ..errors import InputError

HELP = "write the skeleton of a method"
SKELETON = Path(__file__).with_name("skeleton")
# What the skeleton imports its interface from.
IN_CHECKOUT, INSTALLED = "..", "assay_methods."
BARE = "import Benchmark, Check, Family, Method, Question, TimedParams, parameter\n"
WITH_PAPER = """import (
    Benchmark,
    Check,
    Family,
    Measure,
    Mechanism,
    Method,
    Paper,
    Question,
    Reported,
    TimedParams,
    parameter,
)
"""
RATIO = re.compile(
    r"(?<![\d.])(\d+(?:\.\d+)?)\s?(?:x\b|×|times\b|-fold\b|\$\\times\$)", re.IGNORECASE
)
REPORTED = """\
        Reported(
            paper="{paper}",
            mechanism="{name}",
            value={value},
            quantity="time",
            stage="kernel",
            baseline="whole",
            quote={quote},
        ),
"""
MODULES = ("__init__.py", "spec.py", "model.py", "checks.py", "bench.py", "README.md")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method's name and where it goes."""
    parser.add_argument("name", metavar="NAME", help="lower case, with underscores")
    parser.add_argument("--to", metavar="DIR", type=Path, help="a package of its own in DIR")
    parser.add_argument("--paper", metavar="ID", default="", help="the paper that it implements")
    parser.add_argument(
        "--quote", action="append", default=[], help="the paper's words with a ratio, such as 2.1x"
    )


def main(args: argparse.Namespace) -> int:
    """Write the files; refuses a name that is taken and writes over nothing."""
    name: str = args.name
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise InputError(f"a method's name is lower case with underscores, not {name[:80]!r}")
    if name in registry.slugs():
        raise InputError(f"there is a method {name!r} already")
    texts = _as_package(args.to, name) if args.to else _in_checkout(name)
    if args.paper or args.quote:
        spec = next(path for path in texts if path.name == "spec.py")
        texts[spec] = _of_paper(texts[spec], name, args.paper, args.quote)
    existing = [path for path in texts if path.exists()]
    if existing:
        raise InputError(f"{existing[0]} exists already; nothing was written")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    # Absolute: pip takes a bare name for a package of its index.
    first = f"pip install {shlex.quote(str(args.to.resolve()))} && " if args.to else ""
    sys.stdout.write(f"next: {first}python -m {registry.PACKAGE} check {name}\n")
    return 0


def _in_checkout(name: str) -> dict[Path, str]:
    ours = Path(__file__).parents[1]
    tests = ours.parent / "tests" / "methods"
    if not tests.is_dir():
        raise InputError("this is no checkout of Assay: say with --to DIR where the package goes")
    texts = {ours / name / module: _text(module, name, IN_CHECKOUT) for module in MODULES}
    mutations = _text("mutations.py", name, IN_CHECKOUT)
    return {**texts, tests / name / "__init__.py": "", tests / name / "mutations.py": mutations}


def _as_package(folder: Path, name: str) -> dict[Path, str]:
    texts = {folder / name / module: _text(module, name, INSTALLED) for module in MODULES}
    texts[folder / "tests" / f"test_{name}.py"] = _text("test.py", name, INSTALLED)
    return {**texts, folder / "pyproject.toml": _text("pyproject.toml", name, INSTALLED)}


def _of_paper(spec: str, name: str, arxiv_id: str, quotes: list[str]) -> str:
    """Add a paper to a description, with the ratio of each quote as the contract's fields."""
    if not re.fullmatch(r"\d{4}\.\d{4,5}", arxiv_id):
        raise InputError(f"--paper takes an arXiv identifier such as 2605.30351, not {arxiv_id!r}")
    numbers = []
    for quote in quotes:
        ratio = RATIO.search(quote)
        if ratio is None:
            raise InputError(f"there is no ratio such as 2.1x in the quote {quote[:200]!r}")
        numbers.append(
            REPORTED.format(paper=arxiv_id, name=name, value=ratio[1], quote=json.dumps(quote))
        )
    added = (SKELETON / "paper.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").capitalize()
    values = {"REPORTED": "".join(numbers), "PAPER": arxiv_id, "TITLE": title, "NAME": name}
    for word, filled in values.items():
        added = added.replace(word, filled)
    measures = 'measures={"forward": Measure(quantity="time", stage="kernel")},'
    return (
        spec.replace("    checks=(\n", f"{added}    checks=(\n", 1)
        .replace('controls=("whole",),', f'controls=("whole",),\n            {measures}', 1)
        .replace(BARE, WITH_PAPER, 1)
    )


def _text(module: str, name: str, interface: str) -> str:
    """A file of the skeleton with its names filled in; it imports from `interface`."""
    text = (SKELETON / f"{module}.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").capitalize()
    command = "python -m methods" if interface == IN_CHECKOUT else "assay-methods"
    values = {"ASSAY.": interface, "COMMAND": command, "TITLE": title, "NAME": name}
    for word, filled in values.items():
        text = text.replace(word, filled)
    return text
