import json
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from tests.digests import seed_bot
from tests.digests.days import MONDAY, announce, paper, shown
from webapp.digests.models import Profile
from webapp.digests.profiles.seed_config import read_config
from webapp.digests.profiles.validation import ProfileError, load_rules
from webapp.digests.scoring.rules import Keyword

CONFIG: dict[str, Any] = {
    "categories": ["cs.AI", "cs.CL", "cs.DC", "cs.LG"],
    "keywords": list(seed_bot.KEYWORDS),
    "exclude_keywords": list(seed_bot.EXCLUDE),
    "max_papers": 30,
    "days_back": 7,
    "min_score": 0.1,
    "ai_summary": {"enabled": True, "base_url": "https://llm.example/v1", "model": "qwen-long"},
    "something_else": [1, {}],
}


def read(**changes: Any) -> Any:
    return read_config(json.dumps(CONFIG | changes).encode(), "Mine", Profile.Matching.SUBSTRING)


def test_a_configuration_becomes_rules() -> None:
    rules = read().rules()
    assert rules.keywords == tuple(map(Keyword, seed_bot.KEYWORDS))
    assert rules.exclude == seed_bot.EXCLUDE
    assert rules.categories == ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
    assert rules.announce_types == ("new",)
    assert (rules.substring, rules.min_score, rules.size) == (True, 0.1, 30)


def test_a_keyword_that_stands_twice_counts_twice() -> None:
    rules = read(keywords=["RL", "LLM", "rl"]).rules()
    assert rules.keywords == (Keyword("RL", 2.0, 1.0), Keyword("LLM"))


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"keywords": None}, "keywords", "valid array"),
        ({"keywords": "LLM"}, "keywords", "valid array"),
        ({"keywords": ["a", 3, None]}, "keywords", "2: Input should be a valid string"),
        ({"keywords": []}, "keywords", "at least one"),
        ({"keywords": ["", "x"]}, "keywords", "is empty"),
        ({"keywords": [f"k{n}" for n in range(101)]}, "keywords", "at most 100"),
        ({"categories": ["cs.CL", "Not a category"]}, "categories", "no arXiv category"),
        ({"categories": {"cs": 1}}, "categories", "valid array"),
        ({"max_papers": 0}, "max_papers", "greater than or equal to 1"),
        ({"max_papers": "many"}, "max_papers", "valid integer"),
        ({"min_score": float("nan")}, "min_score", "finite|greater"),
        ({"min_score": float("inf")}, "min_score", "finite|less"),
        ({"exclude_keywords": [[]]}, "exclude_keywords", "1: Input should be a valid string"),
    ],
)
def test_errors_come_by_the_configurations_fields(
    changes: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(ProfileError, match=said) as caught:
        read(**changes)
    assert list(caught.value.errors) == [field]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe{", b"[" * 100_000, b"1" * 2_000_000])
def test_what_is_no_configuration_says_so(raw: bytes) -> None:
    with pytest.raises(ProfileError) as caught:
        read_config(raw, "Mine", Profile.Matching.TOKEN)
    assert list(caught.value.errors) == ["file"]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(list(CONFIG)), json_values))
def test_any_configuration_is_a_profile_or_an_error(changes: dict[str, Any]) -> None:
    with suppress(ProfileError):
        assert read(**changes).rules().keywords


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.mark.django_db
def test_importing_again_changes_the_same_profile(config: Path) -> None:
    announce(MONDAY, paper(1, "Fast decoding"))
    out = StringIO()
    call_command("import_profile", str(config), name="My bot", matching="substring", stdout=out)
    made = Profile.objects.get(name="My bot")
    assert made.slug == "my-bot"
    assert "/p/my-bot/" in out.getvalue()
    assert "--profile my-bot" in out.getvalue()
    assert shown(made, MONDAY) == ["2603.00001"]
    config.write_text(json.dumps(CONFIG | {"keywords": ["zebra"]}))
    call_command("import_profile", str(config), name="My bot", stdout=out)
    again = Profile.objects.get(name="My bot")
    assert again.pk == made.pk
    assert load_rules(again).keywords == (Keyword("zebra"),)
    assert shown(again, MONDAY) == []


@pytest.mark.django_db
def test_a_bad_configuration_changes_nothing(config: Path) -> None:
    call_command("import_profile", str(config), name="My bot", stdout=StringIO())
    before = Profile.objects.values().get(name="My bot")
    config.write_text(json.dumps(CONFIG | {"keywords": [1], "max_papers": 0}))
    with pytest.raises(CommandError, match=r"(?s)keywords: 1: Input should be") as caught:
        call_command("import_profile", str(config), name="My bot")
    assert caught.value.returncode == 2
    assert Profile.objects.values().get(name="My bot") == before


@pytest.mark.django_db
def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nothing\.json: No such file") as caught:
        call_command("import_profile", str(tmp_path / "nothing.json"))
    assert caught.value.returncode == 2
