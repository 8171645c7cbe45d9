"""The pages of digests, as HTTP answers."""

import re
from datetime import date

import pytest
from django.test import Client
from django.urls import reverse

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from webapp.digests.build import build
from webapp.digests.models import Digest, Profile
from webapp.library.models import Star
from webapp.papers.models import Listing

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client):
    made = factories.make_reader()
    client.force_login(made)
    return made


def text(response):
    return response.content.decode()


def test_today_shows_every_card_with_its_reasons(client):
    factories.make_day(5)
    page = text(client.get("/"))
    assert "Thursday, 12 March 2026" in page
    assert page.count('<article class="card"') == 5
    assert 'aria-label="Why it is here"' in page
    assert '<mark data-k="' in page
    assert re.search(r"cs\.LG\s+<span class=\"unseen\">complete<", page)


def test_an_anonymous_page_touches_no_session_and_takes_at_most_four_queries(
    client, django_assert_max_num_queries
):
    factories.make_day(30)
    with django_assert_max_num_queries(4):
        first = client.get("/")
    with django_assert_max_num_queries(1):
        again = client.get("/", headers={"if-none-match": first["ETag"]})
    assert again.status_code == 304
    assert not first.cookies
    assert "csrfmiddlewaretoken" not in text(first)


def test_a_changed_day_is_a_new_page(client):
    digest = factories.make_day(3)
    before = client.get("/")
    digest.entries.filter(rank=3).delete()
    Digest.objects.update(fingerprint="another")
    after = client.get("/", headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert text(after).count("<article") == 2


@pytest.mark.parametrize("change", ["poll", "next day", "profile"])
def test_what_else_a_page_shows_makes_it_new_too(client, change):
    digest = factories.make_day(3)
    before = client.get("/digest/2026-03-12/")
    if change == "poll":
        Listing.objects.filter(category="cs.CL").update(
            state="failed", reason="503", polled_at=factories.moment(date(2026, 3, 12), 9)
        )
    if change == "next day":
        factories.make_digest(digest.profile, [], date(2026, 3, 13))
    if change == "profile":
        profile = digest.profile
        profile.name = "Another"
        profile.save()
    assert client.get("/digest/2026-03-12/")["ETag"] != before["ETag"]


def test_filters_live_in_the_query_string(client):
    factories.make_day(14)
    whole = text(client.get("/?order=title"))
    cross = text(client.get("/?type=cross"))
    assert whole.count("<article") == 14
    assert cross.count("<article") == 2
    assert "2</span> of <span" in cross
    kernel = text(client.get("/?keyword=Kernel&view=abstracts&order=new"))
    assert 'class="cards abstracts"' in kernel
    assert 0 < kernel.count("<article") < 14
    ids = [part.split('"')[0] for part in kernel.split('<article class="card" id="p-')[1:]]
    assert ids == sorted(ids, reverse=True)


def test_the_longest_keyword_narrows_a_day_too(client):
    words = "/attention" + "|owl" * 47 + "/"
    assert len(words) > 190
    announce(MONDAY, paper(1), paper(2, "Boats"))
    build([MONDAY], [profile(slug="long", words=[words, "models"])])
    assert text(client.get("/p/long/")).count("<article") == 2
    assert text(client.get("/p/long/", {"keyword": words})).count("<article") == 1


@pytest.mark.parametrize(
    "query", ["keyword=%00%27%22%3Cscript%3E", "category=nope", "order=x&view=y&page=z", "type="]
)
def test_a_strange_filter_is_a_page_all_the_same(client, query):
    factories.make_day(3)
    response = client.get(f"/?{query}")
    assert response.status_code == 200
    assert "<script>" not in text(response).replace("<script src", "")


def test_a_day_tells_its_neighbours(client):
    factories.make_day(2)
    factories.make_digest(Profile.objects.get(), [], date(2026, 3, 10))
    page = text(client.get("/digest/2026-03-12/"))
    assert 'href="/digest/2026-03-10/"' in page
    assert "No paper matches" in text(client.get("/digest/2026-03-10/"))


@pytest.mark.parametrize(
    ("day", "said"),
    [
        ("2026-03-14", "announces nothing on a Saturday"),
        ("2026-03-11", "manage.py fetch --since 2026-03-11"),
        ("2999-01-03", "is in the future"),
    ],
)
def test_a_day_without_a_digest_says_why(client, day, said):
    factories.make_day(2)
    response = client.get(f"/digest/{day}/")
    assert response.status_code == 404
    assert said in text(response)


def test_the_reasons_of_a_day_stand_apart_by_category(client):
    for category in ("cs.AI", "cs.CL"):
        factories.make_listing(category, state="failed", reason="no route to host", counts={})
    said = " ".join(text(client.get(f"/digest/{factories.DAY}/")).split())
    for category in ("cs.AI", "cs.CL"):
        assert f"<b>{category} · failed</b> no route to host </p>" in said


@pytest.mark.parametrize("path", ["/digest/2026-02-30/", "/digest/x/", "/p/nobody/", "/p/a b/"])
def test_what_is_no_page_is_a_404_of_our_own(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "Page not found" in text(response)
    assert "<code>/papers/2512.14925/</code>" in text(response)


def test_a_first_start_says_what_is_going_on(client):
    response = client.get("/")
    assert response.status_code == 200
    assert "No papers yet" in text(response)
    factories.make_listing(state="failed", reason="no route to host", counts={})
    assert "no route to host" in text(client.get("/"))


def test_the_sample_is_labelled_on_every_page(client):
    factories.make_day(2)
    assert "A sample" not in text(client.get("/"))
    factories.make_listing("cs.RO", state="failed", reason="no route to host", counts={})
    factories.make_listing("cs.SY", source="sample")
    for path in ("/", "/feeds/", "/intake/", "/search", "/keyboard/", "/sign-in/"):
        page = text(client.get(path))
        assert "Sample day." in page, path
        assert ">See the status</a>" in page


def test_late_days_are_told_on_today_only(client):
    factories.make_day(2)
    factories.make_listing(
        "cs.CL", date(2026, 3, 13), state="stale", reason="the same batch again", counts={}
    )
    assert "the same batch again" in text(client.get("/"))
    assert "the same batch again" not in text(client.get("/digest/2026-03-12/"))


def test_a_profile_has_its_own_page_days_and_archive(client):
    profile = factories.make_profile("mine", name="Mine <b>")
    factories.make_digest(profile, [factories.make_paper(1)])
    for path in ("/p/mine/", "/p/mine/2026-03-12/", "/digest/?profile=mine"):
        page = text(client.get(path))
        assert "Mine &lt;b&gt;" in page
    assert 'href="/p/mine/2026-03-12/"' in page
    assert client.get("/digest/?profile=nobody").status_code == 404


def test_a_category_shows_all_that_was_announced_page_by_page(client, monkeypatch):
    monkeypatch.setattr("webapp.pages.days.PAPERS_A_PAGE", 2)
    factories.make_day(12)
    first = text(client.get("/category/cs.LG/"))
    assert first.count("<article") == 2
    assert "?page=2" in first
    assert text(client.get("/category/cs.LG/?page=2&date=2026-03-12")).count("<article") == 1
    assert client.get("/category/cs.XX/").status_code == 404
    assert "was not fetched for that day" in text(client.get("/category/cs.LG/?date=2020-01-01"))


def test_saving_and_letting_go(client, reader):
    paper = factories.make_paper(1)
    answer = client.post(
        "/star/", {"paper": paper.arxiv_id}, headers={"accept": "application/json"}
    )
    assert answer.json() == {"starred": True}
    assert paper.title_html in text(client.get("/library/"))
    back = client.post("/star/", {"clear": paper.arxiv_id, "next": "/digest/2026-03-12/?type=new"})
    assert back["Location"] == f"/digest/2026-03-12/?type=new#p-{paper.arxiv_id}"
    assert not Star.objects.exists()
    assert "Nothing saved yet" in text(client.get("/library/"))


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:a()"])
def test_saving_leads_nowhere_else(client, reader, elsewhere):
    paper = factories.make_paper(1)
    back = client.post("/star/", {"paper": paper.arxiv_id, "next": elsewhere})
    assert back["Location"].startswith("/#")


def test_saving_needs_a_reader_a_post_and_a_paper(client):
    paper = factories.make_paper(1)
    assert client.post("/star/", {"paper": paper.arxiv_id})["Location"].startswith("/sign-in/")
    client.force_login(factories.make_reader())
    assert client.get("/star/").status_code == 405
    assert client.post("/star/", {"paper": "nonsense"}).status_code == 404
    assert client.get("/library/").status_code == 200


def test_a_signed_in_page_is_the_readers_own(client, reader):
    digest = factories.make_day(2)
    anonymous = client_without_cookies()
    Star.objects.create(reader=reader, paper=digest.entries.get(rank=1).paper)
    mine = client.get("/")
    assert 'aria-pressed="true"' in text(mine)
    assert mine["Cache-Control"] == "private, no-cache"
    theirs = anonymous.get("/")
    assert "aria-pressed" not in text(theirs)
    assert "Sign in" in text(theirs)


def client_without_cookies():
    from django.test import Client

    return Client()


FORM = {
    "name": "Long context",
    "categories": "cs.LG cs.CL",
    "keywords": "Attention\nquant* ; 2",
    "announce_types": ["new"],
    "matching": "token",
    "min_score": "0",
    "size": "30",
    "language": "en",
}


def test_a_profile_is_previewed_then_saved_then_built(client, reader):
    factories.make_day(6)
    preview = client.post("/feeds/new/", FORM | {"preview": "1"})
    assert preview.status_code == 200
    assert "Effect on recent days" in text(preview)
    assert not Profile.objects.filter(owner=reader).exists()
    saved = client.post("/feeds/new/", FORM | {"save": "1"})
    assert saved["Location"] == "/p/long-context/"
    page = text(client.get("/p/long-context/"))
    assert "is saved" in page
    assert page.count("<article") > 0
    assert "Long context" in text(client.get("/feeds/"))


def test_errors_stand_at_their_fields_and_nothing_is_lost(client, reader):
    profile = factories.make_profile("mine", owner=reader, name="Mine")
    response = client.post(
        "/feeds/mine/", FORM | {"keywords": "/(/", "name": "Kept words", "save": "1"}
    )
    assert response.status_code == 422
    page = text(response)
    assert "Kept words" in page
    assert 'id="id_keywords_error"' in page
    profile.refresh_from_db()
    assert profile.name == "Mine"


def test_a_changed_profile_shows_what_would_change(client, reader):
    factories.make_day(6)
    factories.make_profile("mine", owner=reader, name="Mine")
    page = text(client.post("/feeds/mine/", FORM | {"keywords": "Kernel", "preview": "1"}))
    assert "Effect on recent days" in page
    assert "Nothing is saved yet" in page


def test_a_profile_is_deleted_with_its_days(client, reader):
    profile = factories.make_profile("mine", owner=reader, name="Mine")
    factories.make_digest(profile, [factories.make_paper(1)])
    assert client.post("/feeds/mine/", {"delete": "1"})["Location"] == "/feeds/"
    assert not Profile.objects.exists()
    assert not Digest.objects.exists()


def test_only_the_owner_edits_and_only_staff_the_sites_own(client, reader):
    factories.make_profile("theirs", owner=factories.make_reader("other"))
    factories.make_profile()
    assert client.get("/feeds/theirs/").status_code == 404
    assert client.get("/feeds/site/").status_code == 403
    assert client.post("/feeds/theirs/", {"delete": "1"}).status_code == 404
    reader.is_staff = True
    reader.save()
    assert client.get("/feeds/site/").status_code == 200
    client.post("/feeds/site/", {"delete": "1"})
    assert Profile.objects.filter(slug="site").exists()


def test_profiles_of_one_reader_are_limited(client, reader, monkeypatch):
    monkeypatch.setattr("webapp.digests.profiles.views.MAX_PROFILES", 1)
    factories.make_profile("one", owner=reader)
    assert client.post("/feeds/new/", FORM | {"save": "1"})["Location"] == "/feeds/"
    assert Profile.objects.count() == 1


@pytest.mark.parametrize("name", ["digests:profile-new", "library:library"])
def test_what_is_a_readers_own_asks_to_sign_in(client, name):
    response = client.get(reverse(name))
    assert response["Location"].startswith("/sign-in/?next=")


def test_pages_announce_their_feeds(client):
    factories.make_day(2)
    factories.make_profile("mine")
    assert 'type="application/atom+xml" title="Assay, Atom" href="/digest.atom"' in text(
        client.get("/")
    )
    assert 'href="/p/mine.json"' in text(client.get("/p/mine/"))
    page = text(client.get("/feeds/"))
    for address in ("/digest.rss", "/p/mine.atom", "/category/cs.LG.json", "/feeds/opml"):
        assert f'href="{address}"' in page
        assert client.get(address).status_code == 200


@pytest.mark.parametrize("path", ["/digest/2026-03-04/", "/", "/digest/1999-01-01/"])
def test_before_the_first_digest_there_is_a_page_all_the_same(client: Client, path: str) -> None:
    Profile.objects.all().delete()
    assert client.get(path).status_code in {200, 404}


def test_all_matches_are_reached_page_by_page_and_counted_by_the_filters(client):
    announce(MONDAY, *(paper(n, "Sparse attention" if n < 4 else "Sparse") for n in range(1, 7)))
    mine = profile("Mine", size=2)
    build([MONDAY], [mine])
    first = text(client.get("/p/mine/"))
    assert [f"p-2603.0000{n}" in first for n in range(1, 7)] == [True] * 2 + [False] * 4
    assert "Page 1 of 3" in first
    last = text(client.get("/p/mine/?page=3"))
    assert "p-2603.00006" in last
    assert re.findall(r"Rank </span>(\d+)<", last) == ["5", "6"]
    assert "We study language models." in last
    narrowed = text(client.get("/p/mine/?keyword=attention"))
    assert re.search(r"<span>attention</span><b>3</b>", narrowed)
    assert "Page 1 of 2" in narrowed


def test_late_days_are_counted_with_the_last_reason(client):
    factories.make_day(2)
    for day in (13, 16, 17):
        factories.make_listing(
            "cs.CL", date(2026, 3, day), state="failed", reason=f"reason {day}", counts={}
        )
    page = " ".join(text(client.get("/")).split())
    assert "Latest day: 12 March." in page
    assert (
        "3 later days could not be fetched completely. Last reason (cs.CL, 17 March): reason 17."
        in page
    )


def test_a_day_is_chosen_by_date(client: Client) -> None:
    factories.make_day(2)
    chosen = client.get(f"/digest/?profile=site&date={factories.DAY}")
    assert chosen["Location"] == f"/digest/{factories.DAY}/"
    for odd in ("2026-13-45", "x", ""):
        assert client.get(f"/digest/?date={odd}").status_code == 200


def test_a_category_that_a_profile_has_just_asked_for_is_being_fetched(client):
    profile(categories=["cs.RO"])
    page = text(client.get("/category/cs.RO/"))
    assert "cs.RO is being fetched" in page
    assert "no such category" not in page
    assert "no such category" in text(client.get("/category/cs.XX/"))


def test_a_category_that_is_not_fetched_leads_to_its_papers_that_came_by_others(client):
    here = factories.make_day(1).entries.get().paper
    here.categories = ["cs.MA", "cs.CL"]
    here.save()
    page = text(client.get("/category/cs.MA/"))
    assert "1 paper of other categories is also in it" in page
    assert 'href="/search?q=cat:cs.MA"' in page
    assert here.arxiv_id in text(client.get("/search?q=cat:cs.MA"))
    assert client.get("/category/cs.XX/").status_code == 404


def test_a_row_has_the_two_strongest_reasons_and_says_how_many_more_there_are(client):
    entry = factories.make_day(1).entries.get()
    points = [2.0, 1.5, 4.0, -0.5]
    entry.matches = [
        {"keyword": f"word{number}", "where": ["title"], "points": one}
        for number, one in enumerate(points)
    ]
    entry.save()
    page = text(client.get("/"))
    chips = page[page.index('class="chips"') :]
    chips = chips[: chips.index("</ul>")]
    assert re.findall(r">(word\d)</span>", chips) == ["word2", "word0"]
    assert "2 more" in chips
    Digest.objects.update(fingerprint="another")
    entry.matches = entry.matches[:2]
    entry.save()
    assert 'class="rest"' not in text(client.get("/"))


def test_a_reason_against_a_paper_is_no_chip_beside_others(client):
    entry = factories.make_day(1).entries.get()
    against = {"keyword": "learned:", "where": [], "points": -1.0, "closeness": "further"}
    word = {"keyword": "sparse", "where": ["title"], "points": 0.5}
    entry.matches = [against, word]
    entry.save()
    page = text(client.get("/"))
    assert ">sparse</span>" in page
    assert "less close to saved papers" not in page
    assert "1 more" in page
    Digest.objects.update(fingerprint="another")
    entry.matches = [against]
    entry.save()
    assert "less close to saved papers" in text(client.get("/"))


@pytest.mark.parametrize(
    ("abstract", "did", "quote"),
    [
        ("We propose Heron, which is 3.1x faster.", "which is <b>3.1x</b> faster.", ""),
        (
            "We propose Heron, which is 3.1x faster. It reduces memory by 40%.",
            "which is <b>3.1x</b> faster.",
            "It reduces memory by <b>40%</b>.",
        ),
        ("We propose Heron. It is 3.1x faster.", "Heron.", "It is <b>3.1x</b> faster."),
    ],
)
def test_a_row_says_nothing_twice(client: Client, abstract: str, did: str, quote: str) -> None:
    announce(MONDAY, paper(1, "On sparse attention", abstract=abstract))
    made = profile("Mine", words=["sparse"])
    build([MONDAY], [made])
    page = client.get(f"/p/{made.slug}/").content.decode()
    said = re.search(r'<p class="did">(.*?)</p>', page)
    assert said
    assert said[1].endswith(did)
    assert re.findall("“(.*?)”", page.partition(said[0])[2]) == [quote] * bool(quote)


def test_a_row_links_to_the_authors_code(client):
    entry = factories.make_day(1).entries.get()
    entry.paper.comment = "Code: https://github.com/ada/lindqvist"
    entry.paper.save()
    assert 'href="https://github.com/ada/lindqvist"' in text(client.get("/"))


def test_closeness_is_no_keyword_to_narrow_by(client):
    announce(MONDAY, *(paper(number, f"On sparse attention {number}") for number in range(4)))
    build([MONDAY])
    page = text(client.get("/"))
    narrow = page.partition('id="narrow"')[2]
    assert "keyword=" in narrow
    assert "learned" not in narrow
    assert "close to" not in narrow
