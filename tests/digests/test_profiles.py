from typing import Any

import pytest

from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile, shown
from webapp.digests.build import build
from webapp.digests.forms import ProfileForm
from webapp.digests.models import Profile
from webapp.digests.preview import preview_profile
from webapp.digests.profiles import free_slug, rules_of
from webapp.digests.scoring import Keyword, Rules

GOOD: dict[str, Any] = {
    "name": "Mine",
    "categories": "cs.CL, hep-th cond-mat.str-el",
    "keywords": "sparse attention ; 2\nquant* ; 1 ; 0\n\n  /flash-?attn/  \nC++",
    "exclude": "survey\n",
    "announce_types": ["cross", "new"],
    "matching": "token",
    "min_score": "1.5",
    "size": "20",
    "language": "zh",
}


def test_a_form_becomes_rules() -> None:
    form = ProfileForm(GOOD)
    assert form.is_valid(), form.errors
    assert form.wanted.rules == Rules(
        keywords=(
            Keyword("sparse attention", 2.0, 0.5),
            Keyword("quant*", 1.0, 0.0),
            Keyword("/flash-?attn/"),
            Keyword("C++"),
        ),
        exclude=("survey",),
        categories=frozenset({"cs.CL", "hep-th", "cond-mat.str-el"}),
        announce_types=frozenset({"new", "cross"}),
        min_score=1.5,
        size=20,
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "", "required"),
        ("name", "a\x07b", "control"),
        ("name", "x" * 81, "80"),
        ("categories", "cs.CL nonsense!", "no arXiv category"),
        ("categories", "", "required"),
        ("keywords", "/(/", "missing"),
        ("keywords", "a*", "two characters"),
        ("keywords", "LLM\nLLM", "twice"),
        ("keywords", "LLM\nllm", "means the same as"),
        ("keywords", "x ; 1000", "less than or equal to 100"),
        ("keywords", "x ; -1", "greater than or equal to 0"),
        ("keywords", "x ; nan", "finite"),
        ("keywords", "x ; inf", "finite"),
        ("keywords", "x ; 0 ; 0", "earns nothing"),
        ("keywords", "\n".join(f"k{n}" for n in range(101)), "100"),
        ("keywords", "\n".join(f"/k{n}/" for n in range(11)), "10 are the most"),
        ("exclude", "/a(/", "missing"),
        ("announce_types", [], "required"),
        ("announce_types", ["odd"], "not one of the available"),
        ("matching", "odd", "not one of the available"),
        ("min_score", "nan", "number"),
        ("min_score", "-1", "greater than or equal to 0"),
        ("size", "0", "greater than or equal to 1"),
        ("size", "1000", "less than or equal to 200"),
    ],
)
def test_an_error_stands_at_its_field(field: str, value: object, said: str) -> None:
    form = ProfileForm(GOOD | {field: value})
    assert not form.is_valid()
    assert list(form.errors) == [field]
    assert said in " ".join(form.errors[field])


def test_all_errors_come_at_once() -> None:
    form = ProfileForm(GOOD | {"name": "", "keywords": "/(/", "size": "0", "categories": "!"})
    assert set(form.errors) == {"name", "keywords", "size", "categories"}


@pytest.mark.django_db
def test_what_is_saved_is_what_the_form_shows_again() -> None:
    form = ProfileForm(GOOD)
    assert form.is_valid()
    stored = profile(
        keywords=[
            {"keyword": "sparse attention", "weight": 2.0, "title_bonus": 0.5},
            {"keyword": "C++", "weight": 1.0, "title_bonus": 0.25},
            {"keyword": "LLM", "weight": 1.0, "title_bonus": 0.5},
        ]
    )
    again = ProfileForm(ProfileForm.initial_of(stored))
    assert again.is_valid(), again.errors
    assert again.wanted.rules == rules_of(stored)


@pytest.mark.django_db
def test_addresses_are_unique_and_never_a_page() -> None:
    assert free_slug("Sparse Attention!") == "sparse-attention"
    profile(slug="sparse-attention")
    assert free_slug("Sparse attention") == "sparse-attention-2"
    assert free_slug("new") == "new-2"
    assert free_slug("中文") == "profile"
    assert len(free_slug("x" * 80)) <= 64


@pytest.mark.django_db
class TestPreview:
    def days(self) -> Profile:
        mine = profile()
        one, two, three = paper(1), paper(2, "Models"), paper(3, "Zebras", abstract="Zebra.")
        announce(MONDAY, one, two, three)
        announce(TUESDAY, three, paper(4, "A zebra among models"), kind="cross")
        build([MONDAY, TUESDAY], [mine])
        return mine

    def test_it_says_what_comes_goes_and_moves(self) -> None:
        mine = self.days()
        new = Rules((Keyword("zebra"), Keyword("models")), categories=frozenset({"cs.CL"}))
        tuesday, monday = preview_profile(mine, rules_of(mine), new)
        assert (monday.date, monday.before, monday.after) == (MONDAY, 2, 3)
        assert [one.paper.arxiv_id for one in monday.added] == ["2603.00003"]
        assert not monday.dropped
        moved = {one.paper.arxiv_id: (one.old_rank, one.new_rank) for one in monday.moved}
        assert moved == {"2603.00002": (2, 1), "2603.00001": (1, 3)}
        # The zebra stood in Monday's digest, so it does not come again.
        assert [one.paper.arxiv_id for one in tuesday.moved] == []
        assert (tuesday.before, tuesday.after) == (1, 1)

    def test_the_same_rules_change_nothing(self) -> None:
        mine = self.days()
        assert all(day.is_same for day in preview_profile(mine, rules_of(mine), rules_of(mine)))

    def test_it_says_what_saving_then_does(self) -> None:
        mine = self.days()
        new = Rules((Keyword("zebra"),), categories=frozenset({"cs.CL"}))
        changes = preview_profile(mine, rules_of(mine), new)
        mine.keywords = [{"keyword": "zebra", "weight": 1.0, "title_bonus": 0.5}]
        mine.announce_types = ["new", "cross", "replace", "replace-cross"]
        mine.save()
        build([MONDAY, TUESDAY], [mine])
        for day in changes:
            assert len(shown(mine, day.date)) == day.after
            assert {one.paper.arxiv_id for one in day.added} <= set(shown(mine, day.date))

    def test_a_new_profile_only_adds(self) -> None:
        self.days()
        new = Rules((Keyword("zebra"),), categories=frozenset({"cs.CL"}))
        changes = preview_profile(None, None, new)
        assert [(day.before, len(day.added), len(day.dropped)) for day in changes] == [
            (0, 1, 0),
            (0, 1, 0),
        ]

    def test_it_writes_nothing(self) -> None:
        mine = self.days()
        before = list(mine.digests.values())
        preview_profile(mine, rules_of(mine), Rules((Keyword("zebra"),)))
        assert list(mine.digests.values()) == before
