from typing import Any

import pytest

from tests.digests.days import profile
from webapp.digests.profiles.forms import ProfileForm
from webapp.digests.profiles.validation import load_rules
from webapp.digests.scoring.rules import Keyword, Rules

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
    assert form.profile_settings.rules() == Rules(
        keywords=(
            Keyword("sparse attention", 2.0, 0.5),
            Keyword("quant*", 1.0, 0.0),
            Keyword("/flash-?attn/"),
            Keyword("C++"),
        ),
        exclude=("survey",),
        categories=("cs.CL", "hep-th", "cond-mat.str-el"),
        announce_types=("new", "cross"),
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
        ("categories", "cs.CL attention", "no arXiv category"),
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
        ("keywords", "\n".join(f"/k{n}/" for n in range(11)), "at most 10 are allowed"),
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


@pytest.mark.parametrize(
    "typed",
    [
        *("cs.cl hep-TH", "CS.CL, HEP-TH", "cs.CL，hep-th", "cs.CL、hep-th。", "cs.CL；hep-th"),
        *(
            "cs.CL and hep-th",
            "ｃｓ．ＣＬ hep-th",
            '"cs.CL" “hep-th”',
            "[cs.CL] / hep-th.",
            "cs.CL|hep-th",
        ),
        "https://arxiv.org/list/cs.CL/recent arxiv.org/list/hep-th/new?show=50",
    ],
)
def test_categories_are_read_however_they_are_typed(typed: str) -> None:
    form = ProfileForm(GOOD | {"categories": typed})
    assert form.is_valid(), form.errors
    assert form.profile_settings.categories == ["cs.CL", "hep-th"]


def test_archives_are_categories() -> None:
    form = ProfileForm(GOOD | {"categories": "CS math econ stat.ml q-bio.nc COND-MAT.str-el"})
    assert form.is_valid(), form.errors
    assert form.profile_settings.categories == [
        *("cs", "math", "econ", "stat.ML", "q-bio.NC", "cond-mat.str-el")
    ]


@pytest.mark.django_db
def test_words_stored_as_categories_do_not_end_a_feed() -> None:
    assert load_rules(profile(categories=["cs.cl", "and", "hep-th"])).categories == (
        *("cs.CL", "hep-th"),
    )


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
    again = ProfileForm(ProfileForm.initial_values(stored))
    assert again.is_valid(), again.errors
    assert again.profile_settings.rules() == load_rules(stored)
