"""docs/architecture.md holds: its diagram and tables match the packages that exist."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import pytest

from webapp.core.hooks import AnsweredTwiceError, Hook, NamedHooks

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \|(?: ([^|]+) \|)?$", re.MULTILINE)
TABLES = re.findall(r"^\| package \|.*\n(?:\|.*\n)+", TEXT, re.MULTILINE)
GRAPH = grimp.build_graph("webapp", "workers", "methods", cache_dir=None)
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS = SETTINGS["importlinter"]["contracts"]
APPS = next(contract for contract in CONTRACTS if contract.get("containers") == ["webapp"])
LAYERS_OF_CODE = ("webapp", "workers", "assay_common")
OFFERED = {"spec", "registry", "protocol", "charts"}  # to the site


def packages(layer: str) -> set[str]:
    """The packages of a layer, without the database backend, which Django wants in a package, and
    without the methods themselves: `methods list` names those.
    """
    return {
        path.parent.name
        for path in (ROOT / layer).glob("*/__init__.py")
        if path.parent.name != "sqlite" and not (path.parent / "spec.py").exists()
    }


@pytest.mark.parametrize(("layer", "place"), [("webapp", 0), ("workers", 1), ("methods", 2)])
def test_the_tables_name_every_package_and_no_other(layer: str, place: int) -> None:
    named = [name for name, _ in ROW.findall(TABLES[place])]
    assert sorted(named) == sorted(packages(layer))


def test_the_diagram_shows_every_app_of_the_site() -> None:
    picture = TEXT.partition("```mermaid")[2].partition("```")[0]
    site = picture.partition("subgraph webapp")[2].partition("\n    end")[0]
    assert set(re.findall(r"\b(\w+)\[", site)) == packages("webapp")


@pytest.mark.parametrize("app", sorted(packages("webapp")))
def test_an_app_imports_only_those_that_its_row_names(app: str) -> None:
    known = {name: set(uses.split(", ")) for name, uses in ROW.findall(TABLES[0])}
    modules = {f"webapp.{app}"} | GRAPH.find_descendants(f"webapp.{app}")
    found = {
        target.split(".")[1]
        for module in modules
        for target in GRAPH.find_modules_directly_imported_by(module)
        if target.startswith("webapp.") and target.split(".")[1] in packages("webapp")
    }
    assert known[app] == {"all"} or found - {app} <= known[app]


def test_the_site_uses_of_methods_what_the_page_names_and_the_contract_forbids_the_rest() -> None:
    sentence = re.search(r"may import of `methods`\s+([^.]+)\.", TEXT)
    assert sentence
    assert set(re.findall(r"`(\w+)`", sentence[1])) == OFFERED
    contract = next(one for one in CONTRACTS if one["name"].startswith("The site knows what"))
    modules = {path.stem for path in (ROOT / "methods").glob("*.py")} | packages("methods")
    rest = modules - OFFERED - {"__init__"}
    assert {f"methods.{name}" for name in rest} <= {*contract["forbidden_modules"]}
    used = {
        target.split(".")[1]
        for module in GRAPH.modules
        if re.match(r"webapp|workers", module)
        for target in GRAPH.find_modules_directly_imported_by(module)
        if target.startswith("methods.")
    }
    assert used == OFFERED  # of a method too, which no list names


def test_the_distribution_of_the_methods_holds_all_that_it_needs() -> None:
    """It is installed without the site: no module of it may look there."""
    carried = [module for module in GRAPH.modules if module.startswith("methods")]
    others = {
        target
        for module in carried
        for target in GRAPH.find_modules_directly_imported_by(module)
        if not target.startswith(("methods", "assay_common"))
    }
    assert others == set()


LAYERS = [row.split(" | ") for row in APPS["layers"]]
REFERENCE = re.compile(
    r"""\{% (?:include|extends) ["'](\w+)/"""  # {% include "runs/points.html" %}
    r"""|\{% url ["'](\w+)(?:-1)?:"""  # {% url 'runs:run' run.pk %}
    r"""|\{% load ([\w ]+) %\}"""  # {% load i18n runs %}
)


def named_in(template: str) -> set[str]:
    """The apps whose templates, pages and tags a template names."""
    words = {word for found in REFERENCE.findall(template) for word in " ".join(found).split()}
    return words & packages("webapp")


def test_what_a_template_names_is_found() -> None:
    text = """{% load i18n runs %}{% include "papers/named.html" %}{% url 'api:docs' as docs %}"""
    assert named_in(text) == {"runs", "papers", "api"}


@pytest.mark.parametrize("app", sorted(packages("webapp")))
def test_templates_follow_the_arrows_of_the_code(app: str) -> None:
    height = {name: place for place, row in enumerate(reversed(LAYERS)) for name in row}
    for path in (ROOT / "templates" / app).rglob("*.*"):
        above = {name for name in named_in(path.read_text()) if height[name] >= height[app]}
        assert above <= {app}, f"{path.relative_to(ROOT)} names what stands beside or above {app}"


MUTATING = {"append", "extend", "insert", "update", "setdefault", "pop", "clear", "add"}


def reassigned(tree: ast.Module, app: str) -> list[str]:
    """Attributes, items and lists of other apps' modules that a module of `app` changes."""
    theirs = {
        name.asname or name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        for source in [getattr(node, "module", None) or name.name]
        if source.partition(".")[0] in {"webapp", "methods", "workers", "assay_common"}
        and f"{source}.".split(".")[:2] != ["webapp", app]
    }

    def is_theirs(node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in theirs

    changed: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [part for one in targets for part in getattr(one, "elts", [one])]
            changed += [one for one in flat if not isinstance(one, ast.Name) and is_theirs(one)]
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in MUTATING:
            changed += [called] if is_theirs(called.value) else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            changed += [one for one in node.args[:1] if is_theirs(one)]
    return [ast.unparse(one) for one in changed]


def test_nothing_outside_an_app_changes_what_its_modules_hold() -> None:
    """An app extends another one only by answering a hook (webapp/core/hooks.py)."""
    paths = [*(ROOT / "webapp").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]
    assert {
        str(path.relative_to(ROOT)): changes
        for path in paths
        if (changes := reassigned(ast.parse(path.read_text()), path.relative_to(ROOT).parts[1]))
    } == {}


@pytest.mark.parametrize(
    "code",
    [
        "from webapp.ui import personal\npersonal.shelf_of = 1",
        "from webapp.papers.search import filters\nfilters['method'] = 1",
        "from webapp.papers import search\nsearch.orders_by_meaning.append(1)",
        "def ready():\n    from webapp.papers import queries as q\n    q.a, q.b = 1, 2",
        "from webapp.papers import queries\nsetattr(queries, 'shown', 1)",
    ],
)
def test_a_slot_that_is_filled_from_outside_is_seen(code: str) -> None:
    assert reassigned(ast.parse(code), "catalog")
    assert not reassigned(ast.parse(code), "papers") or "personal" in code


def test_a_hook_has_one_answer_at_most() -> None:
    hook = Hook(lambda value: value)
    assert hook(1) == 1
    hook.answer(double := lambda value: 2 * value)
    hook.answer(double)
    assert hook(1) == 2
    with pytest.raises(AnsweredTwiceError):
        hook.answer(lambda value: value)
    named = NamedHooks[[int], int]()
    named.answer("a", double)
    with pytest.raises(AnsweredTwiceError):
        named.answer("a", lambda value: value)
    assert list(named) == ["a"]


def test_a_class_has_a_name_of_its_own() -> None:
    """A name that says two things must be looked up each time; commands are all called Command."""
    names = Counter(
        node.name
        for layer in LAYERS_OF_CODE
        for path in (ROOT / layer).rglob("*.py")
        if not {"migrations", "management"} & {*path.parts}
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_nothing_is_called_one() -> None:
    """A paper is a `paper` and a run a `run`: what `one` is must be looked up each time."""
    modules = [
        path
        for layer in LAYERS_OF_CODE
        for path in (ROOT / layer).rglob("*.py")
        if "migrations" not in path.parts
    ]
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if getattr(node, "id", getattr(node, "arg", None)) == "one"
    ] == []
