"""docs/architecture.md holds: its diagram and tables match the packages that exist."""

import re
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \|(?: ([^|]+) \|)?$", re.MULTILINE)
TABLES = re.findall(r"^\| package \|.*\n(?:\|.*\n)+", TEXT, re.MULTILINE)
GRAPH = grimp.build_graph("webapp", "workers", "methods", cache_dir=None)
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS = SETTINGS["importlinter"]["contracts"]
APPS = next(contract for contract in CONTRACTS if contract.get("containers") == ["webapp"])
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
