import pytest

from webapp.digests.profiles import keyword_frequencies
from webapp.digests.profiles.defaults import KEYWORDS

pytestmark = pytest.mark.django_db


def test_a_site_with_few_papers_knows_the_default_keywords_alone() -> None:
    assert keyword_frequencies.count_frequencies(["speculative decoding", "zebra"]) == {
        "speculative decoding": KEYWORDS["speculative decoding"]
    }
