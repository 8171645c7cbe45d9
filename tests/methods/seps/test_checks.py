"""The parts of the table of checks."""

from methods.protocol import Line, Series
from methods.seps import checks
from methods.seps.spec import METHOD
from tests.processes import ROOT
from webapp.catalog.measured import compared
from webapp.catalog.verdicts import judge


def test_the_definition_gathers_what_the_code_masks():
    """The oracle is no copy of the code: it never sees the dropped patches."""
    given = checks.inputs("cpu", checks.VARIANTS["paper"], batch=1)
    made = checks.example("cpu", checks.VARIANTS["paper"])
    before = made(**given).masks[0][0, 0]
    kept, v = before.bool(), given["patches"][0]
    merged = checks._merge(made, made.aggregations[0], v[1:], before + 0.0)
    assert merged.shape == (made.config.aggregated + 1, 32)
    assert int(kept.sum()) == made.config.kept


def test_the_readme_s_verdicts_are_the_page_s():
    """Of the committed run: each claim's row begins with these words and ends with the verdict."""
    kept = ROOT / "benchmarks/results/seps/retrieval.jsonl"
    bodies = [Line.parse(line).body for line in kept.read_text(encoding="utf-8").splitlines()]
    series = {body.name: body for body in bodies if isinstance(body, Series)}
    rows = (ROOT / "methods/seps/README.md").read_text(encoding="utf-8").splitlines()
    begins = {
        "to_text": "| over LAPS", "to_image": "| over LAPS", "rsum": "| over LAPS",
        "sparse_only": "| the same to image without", "laps_to_text": "| LAPS: R@1",
        "laps_to_image": "| LAPS: R@1",
    }  # fmt: skip
    assert begins.keys() == {claim.id for claim in METHOD.claims}
    for claim in METHOD.claims:
        point = None
        if claim.answer:
            asked = series[claim.answer.series]
            point = asked.point_of(claim.answer.variant, claim.answer.x)
            point = point and compared(asked, point, claim.answer.against)
        (row,) = (row for row in rows if row.startswith(begins[claim.id]))
        assert row.endswith(f"| {judge(claim, point).word} |")
