import pytest

from tests.digests.days import profile
from webapp.digests.profiles.validation import free_slug


@pytest.mark.django_db
def test_addresses_are_unique_and_never_a_page() -> None:
    assert free_slug("Sparse Attention!") == "sparse-attention"
    profile(slug="sparse-attention")
    assert free_slug("Sparse attention") == "sparse-attention-2"
    for page in ("new", "import", "opml"):
        assert free_slug(page) == f"{page}-2"
    assert free_slug("中文") == "feed"
    assert len(free_slug("x" * 80)) <= 64
