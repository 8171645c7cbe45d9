import pytest

from webapp.digests import frequencies
from webapp.digests.default_profile import KEYWORDS

pytestmark = pytest.mark.django_db


def test_a_site_with_few_papers_knows_the_default_keywords_alone() -> None:
    assert frequencies.count(["speculative decoding", "zebra"]) == {
        "speculative decoding": KEYWORDS["speculative decoding"]
    }
