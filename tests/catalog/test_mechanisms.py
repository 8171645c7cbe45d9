"""A mechanism is said only by its name: the words of a family are no evidence."""

import pytest

from methods import registry
from webapp.catalog.mechanisms import named


@pytest.mark.parametrize(
    ("title", "abstract", "mechanism"),
    [
        ("MoBA with small blocks", "", "mean_pooled"),
        ("Long contexts", "We propose a kernel for native sparse attention.", "mean_pooled"),
        ("Sparse attention for video generation", "", ""),
        ("Block sparse attention, faster", "", ""),
        ("Hashing keys for top-k attention", "We hash keys for attention.", ""),
        ("Page selection for long contexts", "", ""),
        ("Long contexts", "We propose pages that outperform MoBA.", ""),
        ("Better than MoBA: reading less", "", ""),
        ("Longformer or BigBird?", "", ""),
        ("Long contexts", "Prior work has MoBA. We propose to read less.", ""),
    ],
)
def test_only_a_name_of_its_own_says_the_mechanism(
    title: str, abstract: str, mechanism: str
) -> None:
    found = named(registry.get("sparse_attention"), title, abstract)
    assert (found.slug if found else "") == mechanism
