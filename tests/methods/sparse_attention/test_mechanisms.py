"""The mechanisms of the spec: each selector is one, and each is measured by what exists."""

import json
import tomllib
from pathlib import Path

from benchmarks import mechanisms
from methods import registry
from methods.sparse_attention.selectors import SELECTORS


def test_every_selector_is_a_mechanism_that_a_benchmark_measures() -> None:
    assert set(SELECTORS) <= mechanisms.measured("sparse_attention")


def test_every_variant_of_a_mechanism_stands_in_the_charts() -> None:
    method = registry.get("sparse_attention")
    folder = Path(registry.__file__).parent / "sparse_attention"
    charts = tomllib.loads((folder / "charts.toml").read_text("utf-8"))
    names = {variant["name"] for listed in charts["variants"].values() for variant in listed}
    benchmarks = {benchmark.slug for benchmark in method.benchmarks}
    for mechanism in method.mechanisms:
        assert set(mechanism.measured) <= benchmarks
        assert {name for every in mechanism.measured.values() for name in every} <= names


def test_the_share_counts_what_is_measured_alone(capsys) -> None:
    reading = [{"mechanism": "a"}, {"mechanism": "b"}, {"mechanism": ""}, {"mechanism": "a"}]
    assert mechanisms.counts(reading, {"a"}) == {"a": 2, "": 2}
    mechanisms.main()
    printed = capsys.readouterr().out
    assert "sparse_attention: 21 of 62 papers (34%)" in printed
    assert "token_pruning: 28 of 46 papers (61%)" in printed
    assert "concept_lm: 44 of 102 papers (43%)" in printed
    for line in mechanisms.READING.read_text("utf-8").splitlines():
        paper = json.loads(line)
        assert paper["id"][-1] in "01234"  # the others are kept to judge by
        known = {mechanism.slug for mechanism in registry.get(paper["method"]).mechanisms}
        assert paper["mechanism"] in known or paper["instead"]
        assert "near" not in paper or (not paper["mechanism"] and paper["near"] in known)
