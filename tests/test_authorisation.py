"""The authorisation matrix: who may ask for what. A new address must take its place in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests import factories
from webapp.catalog.models import MethodLink
from webapp.digests.models import Profile

pytestmark = pytest.mark.django_db

# An anonymous visitor is sent to sign in, whatever the method.
READERS = {
    *("digests:profile-new", "digests:profile-edit", "library:star"),
    *("library:library", "library:export", "library:leave", "library:import", "library:entry"),
    *("library:list", "library:bulk", "library:zotero", "pages:first-steps"),
    *("library:forget", "digests:profile-import"),
    *("mail:account", "mail:confirm", "mail:preview", "readers:account", "readers:export"),
    "readers:sign-out-elsewhere",
    *(
        "catalog:correct",
        "claims:correct",
        "runs:of-paper",
        "runs:ask",
        "runs:cancel",
        "api:tokens",
        "summaries:ask",
    ),
}
# A reader is refused, too.
ADMINISTRATORS = {
    "claims:corrections",
    "readers:readers",
    "operate:connections",
    "papers:fetch-now",
}
# The interface asks for tokens itself: tests/api.
TOKENS = "api-1:"
ARGUMENTS = {
    "slug": "mine",
    "arxiv_id": "2603.00001",
    "pk": 1,
    "token": "none",
    "suffix": "bib",
    "method": "sparse_attention",
    "benchmark": "latency",
}
UUID = "00000000-0000-4000-8000-000000000000"


def names(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for one in resolver.url_patterns:
        if isinstance(one, URLPattern):
            yield f"{prefix}{one.name}", one
        elif one.app_name != "admin":
            yield from names(one, f"{one.namespace}:" if one.namespace else prefix)


ROUTES = dict(names(get_resolver()))


def address(name: str) -> str:
    wanted = ROUTES[name].pattern.converters or ROUTES[name].pattern.regex.groupindex
    given = {key: ARGUMENTS.get(key, "none") for key in wanted}
    if name.startswith("runs:") and "pk" in given:
        given["pk"] = UUID
    return reverse(name, kwargs=given)


@pytest.fixture(autouse=True)
def _scene() -> None:
    paper = factories.make_paper(1)
    factories.make_profile("mine", owner=factories.make_reader("owner"))
    MethodLink.objects.create(pk=1, paper=paper, method="seps", relation="about")


@pytest.mark.parametrize("name", sorted(READERS | ADMINISTRATORS))
@pytest.mark.parametrize("verb", ["get", "post"])
def test_the_anonymous_change_and_see_nothing_private(name: str, verb: str) -> None:
    if (name, verb) == ("runs:ask", "get"):
        return  # the form may be looked at
    answer = getattr(Client(), verb)(address(name))
    refused = answer.status_code in {403, 405}
    assert refused or "/?next=/" in answer["Location"], answer.status_code


@pytest.mark.parametrize("name", sorted(ADMINISTRATORS))
@pytest.mark.parametrize("verb", ["get", "post"])
def test_a_reader_is_no_administrator(name: str, verb: str) -> None:
    client = Client()
    client.force_login(factories.make_reader("other"))
    assert getattr(client, verb)(address(name)).status_code in {302, 403, 405}
    assert not User.objects.filter(username="").exists()


@pytest.mark.parametrize("verb", ["get", "post"])
def test_a_profile_is_its_owners_to_change(verb: str) -> None:
    client = Client()
    client.force_login(factories.make_reader("other"))
    for published, status in ((False, 404), (True, 403)):
        Profile.objects.update(is_published=published)
        assert getattr(client, verb)("/feeds/mine/").status_code == status


@pytest.mark.parametrize(
    "name", sorted(set(ROUTES) - READERS - ADMINISTRATORS - {n for n in ROUTES if TOKENS in n})
)
def test_what_is_open_needs_no_sign_in(name: str) -> None:
    """Every other address: it sends nobody to the sign-in, so its place here is deliberate."""
    keys = ROUTES[name].pattern.converters or ROUTES[name].pattern.regex.groupindex
    try:
        where = address(name)
    except Exception:
        assert keys  # an address that takes dates, formats or run numbers
        return
    location = Client().get(where).headers.get("Location", "")
    assert not location.startswith("/sign-in/")
