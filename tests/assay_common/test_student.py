"""Student's quantile against scipy's and against printed tables."""

import pytest
from scipy.special import stdtrit  # type: ignore[import-untyped]

from assay_common import student


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 19, 80, 300, 2_001])
@pytest.mark.parametrize("share", [0.5, 0.95, 0.975, 0.99, 0.95 ** (1 / 40)])
def test_the_quantile_is_scipys(degrees: int, share: float) -> None:
    exact = float(stdtrit(degrees, (1 + share) / 2))
    assert student.quantile(degrees, share) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("degrees", "tabled"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)],
)
def test_the_quantile_of_95_percent_is_the_tables(degrees: int, tabled: float) -> None:
    assert student.quantile(degrees, 0.95) == pytest.approx(tabled, abs=5e-5)
