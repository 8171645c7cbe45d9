"""The charts that methods declare in `charts.toml`."""

import tomllib
from pathlib import Path

import pytest

from methods import charts

METHODS = Path(charts.__file__).parents[1]


@pytest.mark.parametrize("file", sorted(METHODS.glob("*/charts.toml")), ids=lambda f: f.parent.name)
def test_a_share_declares_what_it_can_be(file: Path) -> None:
    """Without bounds the interval of a share reaches below nothing or above all."""
    series = tomllib.loads(file.read_text())["series"]
    axes = [one["y"] for one in series.values() if "y" in one]
    shares = [axis for axis in axes if axis.get("unit", "").split()[:1] in (["share"], ["%"])]
    assert all({"least", "most"} <= axis.keys() for axis in shares), shares
