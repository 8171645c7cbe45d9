"""docs/architecture.md holds: its picture and tables name the rooms that there are."""

import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \|(?: ([^|]+) \|)?$", re.MULTILINE)
TABLES = re.findall(r"^\| room \|.*\n(?:\|.*\n)+", TEXT, re.MULTILINE)
GRAPH = grimp.build_graph("webapp", "workers", "methods", cache_dir=None)


def rooms(floor: str) -> set[str]:
    """The packages of a floor. Django wants a backend of a database in one, which is no room."""
    return {path.parent.name for path in (ROOT / floor).glob("*/__init__.py")} - {"sqlite"}


@pytest.mark.parametrize(("floor", "place"), [("webapp", 0), ("workers", 1), ("methods", 2)])
def test_the_tables_name_every_room_and_no_other(floor: str, place: int) -> None:
    named = [name for name, _ in ROW.findall(TABLES[place])]
    assert sorted(named) == sorted(rooms(floor))


def test_the_picture_shows_every_room_of_the_site() -> None:
    picture = TEXT.partition("```mermaid")[2].partition("```")[0]
    site = picture.partition("subgraph webapp")[2].partition("\n    end")[0]
    assert set(re.findall(r"\b(\w+)\[", site)) == rooms("webapp")


@pytest.mark.parametrize("room", sorted(rooms("webapp")))
def test_a_room_imports_those_alone_that_its_row_names(room: str) -> None:
    known = {name: set(uses.split(", ")) for name, uses in ROW.findall(TABLES[0])}
    modules = {f"webapp.{room}"} | GRAPH.find_descendants(f"webapp.{room}")
    found = {
        target.split(".")[1]
        for module in modules
        for target in GRAPH.find_modules_directly_imported_by(module)
        if target.startswith("webapp.") and target.split(".")[1] in rooms("webapp")
    }
    assert known[room] == {"all"} or found - {room} <= known[room]
