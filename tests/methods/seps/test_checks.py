"""What the table of checks is made of."""

from methods.seps import checks, reference


def test_the_definition_gathers_what_the_code_masks():
    """The oracle is no copy of the code: it never sees the dropped patches."""
    given = checks.inputs("cpu", checks.VARIANTS["paper"], batch=1)
    made = checks.example("cpu", checks.VARIANTS["paper"])
    before = made(**given).masks[0][0, 0]
    kept, v = before.bool(), given["patches"][0]
    merged = reference._merge(made, made.aggregations[0], v[1:], before + 0.0)
    assert merged.shape == (made.config.aggregated + 1, 32)
    assert int(kept.sum()) == made.config.kept
