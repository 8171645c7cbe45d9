"""The mechanisms of the spec: each selector is one, and each is measured by what exists."""

import tomllib
from pathlib import Path

from methods import registry
from methods.sparse_attention.selectors import SELECTORS


def test_every_selector_is_a_mechanism_that_a_benchmark_measures() -> None:
    mechanisms = registry.get("sparse_attention").mechanisms
    assert set(SELECTORS) <= {mechanism.slug for mechanism in mechanisms if mechanism.measured}


def test_every_variant_of_a_mechanism_stands_in_the_charts() -> None:
    method = registry.get("sparse_attention")
    folder = Path(registry.__file__).parent / "sparse_attention"
    charts = tomllib.loads((folder / "charts.toml").read_text("utf-8"))
    names = {variant["name"] for listed in charts["variants"].values() for variant in listed}
    benchmarks = {benchmark.slug for benchmark in method.benchmarks}
    for mechanism in method.mechanisms:
        assert set(mechanism.measured) <= benchmarks
        assert {name for every in mechanism.measured.values() for name in every} <= names
