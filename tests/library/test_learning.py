"""Learning from a reader, and the ranking of their next days."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile, shown
from webapp.digests.build import build
from webapp.digests.models import Digest, DigestEntry, LearnedModel, Profile
from webapp.digests.profiles.validation import load_rules
from webapp.learning import training
from webapp.learning.numbered import numbered, numbered_vector
from webapp.learning.svm import Example, fit
from webapp.learning.tfidf import vector
from webapp.learning.training import LEFT
from webapp.library import feedback
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
LIKED = ("robot manipulation", "A policy for robot grasping and manipulation.")
OTHER = ("translation quality", "Human evaluation of machine translation quality.")


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    return made


@pytest.fixture(autouse=True)
def _past() -> None:
    """Eighty papers of Monday, a tenth of the liked kind; two of Tuesday."""
    for number in range(80):
        title, abstract = OTHER if number % 10 else LIKED
        announce(MONDAY, paper(100 + number, f"{title} {number}", abstract=abstract))
    announce(
        TUESDAY, paper(50, OTHER[0], abstract=OTHER[1]), paper(51, LIKED[0], abstract=LIKED[1])
    )


def star(reader: User, count: int) -> None:
    for one in Paper.objects.filter(title__startswith="robot")[:count]:
        Star.objects.create(reader=reader, paper=one)


def learned_profile(reader: User, ranking: str) -> Profile:
    return profile("Mine", owner=reader, ranking=ranking, words=["evaluation"])


def test_two_stars_change_the_next_day_and_add_to_what_keywords_find(reader: User) -> None:
    mine = learned_profile(reader, "both")
    build([TUESDAY], [mine])
    assert shown(mine, TUESDAY) == ["2603.00050"]
    assert not feedback.learn(reader.pk)
    star(reader, 1)
    monday = Paper.objects.filter(title__startswith="robot").exclude(arxiv_id="2603.00051")
    another = monday.order_by("-pk")[0]
    Star.objects.create(reader=reader, paper=another)
    assert feedback.learn(reader.pk)
    assert set(shown(mine, TUESDAY)) == {"2603.00050", "2603.00051"}
    entries = Digest.objects.get(profile=mine, date=TUESDAY).entries
    for entry in entries.all():
        assert sum(one["points"] for one in entry.matches) == pytest.approx(entry.score)
    close = entries.get(paper__arxiv_id="2603.00051").matches
    assert [one["near"] for one in close] == [another.title]


def test_a_learned_profile_needs_no_keywords_and_keeps_what_is_like(reader: User) -> None:
    star(reader, 5)
    mine = learned_profile(reader, "learned")
    feedback.learn(reader.pk)
    entries = Digest.objects.get(profile=mine, date=TUESDAY).entries
    assert [(e.paper.arxiv_id, e.also_mentioned) for e in entries.all()] == [
        ("2603.00051", False),
        ("2603.00050", True),
    ]
    Star.objects.filter(reader=reader).delete()
    assert feedback.learn(reader.pk)  # nothing to go by: its keywords again
    assert shown(mine, TUESDAY) == ["2603.00050"]


def test_who_has_no_profile_for_it_is_led_to_one(client: Client, reader: User) -> None:
    star(reader, 5)
    client.force_login(reader)
    assert "None of your feeds learns yet" not in client.get("/library/").content.decode()
    feedback.learn(reader.pk)
    assert "None of your feeds learns yet" in client.get("/library/").content.decode()
    learned_profile(reader, "both")
    assert "None of your feeds learns yet" not in client.get("/library/").content.decode()


def test_rules_alone_are_not_touched(reader: User) -> None:
    star(reader, 5)
    mine = learned_profile(reader, "rules")
    build([TUESDAY], [mine])
    before = Digest.objects.get(profile=mine).fingerprint
    feedback.learn(reader.pk)
    assert load_rules(mine).learned is None
    assert Digest.objects.get(profile=mine, date=TUESDAY).fingerprint == before


def test_every_signal_counts_and_the_same_signals_change_nothing(reader: User) -> None:
    papers = list(Paper.objects.filter(title__startswith="robot")[:6])
    entry = LibraryEntry.objects.create(reader=reader, paper=papers[0], note="mine")
    LibraryEntry.objects.create(reader=reader, paper=papers[1], read_at=factories.moment(MONDAY, 9))
    made = ReadingList.objects.create(reader=reader, name="L")
    made.papers.add(papers[2], papers[3])
    LikedText.objects.create(reader=reader, title="Robot hands", abstract="Robot grasping.")
    given = feedback.signals(reader)
    assert sorted(given.weights.values()) == [pytest.approx(1 / 3), 1, 1, 1]
    assert given.count == 4
    Star.objects.create(reader=reader, paper=papers[4])
    assert feedback.learn(reader.pk)
    assert not feedback.learn(reader.pk)
    entry.not_for_me = True
    entry.save()
    given = feedback.signals(reader)
    assert (given.count, given.weights[papers[0].pk]) == (4, -LEFT)
    LearnedModel.objects.get(reader=reader)


def test_a_paper_with_an_opinion_stands_for_no_other(
    reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    star(reader, 5)
    calls: list[list[Example]] = []
    monkeypatch.setattr(training, "fit", lambda examples: calls.append(examples) or fit(examples))
    feedback.learn(reader.pk)
    seen, *folds = calls
    assert sum(one.liked for one in seen) == 5
    # Cross-validation leaves each of them out once.
    assert [sum(one.liked for one in fold) for fold in folds] == [4] * 5
    # The other half of the rest says how close a paper is; with the liked ones it would be 11.
    assert sum(not one.liked for one in seen) == (Paper.objects.count() - 5 + 1) // 2


def test_five_liked_papers_weigh_as_much_as_all_others() -> None:
    liked = [Example(numbered({"robot": 1.0}), True)] * 5
    few, many = (fit([*liked, *[Example(numbered({"speech": 1.0}), False)] * n]) for n in (5, 200))
    assert many.log_odds({"robot": 1.0}) >= few.log_odds({"robot": 1.0}) > 0.2


def test_what_is_not_for_me_is_learned_too(reader: User) -> None:
    star(reader, 5)
    feedback.learn(reader.pk)
    before = LearnedModel.objects.get(reader=reader)
    left = Paper.objects.filter(title__startswith="translation").first()
    LibraryEntry.objects.create(reader=reader, paper=left, not_for_me=True)
    feedback.learn_all()
    after = LearnedModel.objects.get(reader=reader)
    assert after.disliked == 1
    assert after.weights["translation"] < before.weights["translation"] < 0


def test_another_readers_stars_say_nothing_of_mine(reader: User) -> None:
    star(factories.make_reader("other"), 5)
    assert not feedback.learn(reader.pk)


def test_a_papers_page_shows_every_reason_and_no_place_that_is_unknown(
    reader: User, client: Client
) -> None:
    mine = learned_profile(reader, "rules")
    build([TUESDAY], [mine])
    entry = DigestEntry.objects.get(digest__profile=mine)
    entry.matches = [{"keyword": "learned:owls", "where": [], "points": -0.3, "rarity": "learned"}]
    entry.save()
    client.force_login(reader)
    page = client.get(f"/papers/{entry.paper.arxiv_id}/").content.decode()
    assert "owls" in page
    assert not re.search(r"<small>in\s*</small>", page)


def test_a_star_asks_for_learning_when_it_is_stored(
    reader: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: object
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(feedback, "ask", asked.append)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        star(reader, 1)
    assert asked == [reader.pk]


@pytest.mark.django_db(transaction=True)
def test_many_changes_at_once_ask_for_learning_once(
    client: Client, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(feedback, "ask", asked.append)
    for name in ("One", "Two", "Three"):
        ReadingList.objects.create(reader=reader, name=name)
    client.force_login(reader)
    client.post("/library/import/", {"text": " ".join(f"2603.{n:05d}" for n in range(100, 120))})
    assert Star.objects.count() == 20
    client.post("/library/papers/2603.00101/", {"note": "Read it.", "new_list": "Four"})
    assert asked == [reader.pk, reader.pk]


class TestMachine:
    def examples(self) -> list[Example]:
        other = Example(numbered_vector(*OTHER), False)
        return [Example(numbered_vector(*LIKED), True)] + [other] * 9

    def test_it_parts_the_classes_whatever_their_sizes(self) -> None:
        model = fit(self.examples())
        assert model.log_odds(vector(*LIKED)) > 0 > model.log_odds(vector(*OTHER))

    def test_it_minimises_what_it_says(self) -> None:
        """At the optimum no weight can be moved for the better."""
        model = fit(self.examples(), cost=0.3)

        def objective(shift: str | None, by: float) -> float:
            weights = dict(model.weights) | {"": model.intercept}
            if shift is not None:
                weights[shift] = weights.get(shift, 0) + by
            loss = sum(value * value for value in weights.values()) / 2
            texts = [LIKED] + [OTHER] * 9
            for text, cost in zip(texts, [1.5] + [0.3 * 5 / 9] * 9, strict=True):
                margin = weights[""] + sum(v * weights.get(t, 0) for t, v in vector(*text).items())
                loss += cost * max(0.0, 1 - (1 if text is LIKED else -1) * margin) ** 2
            return loss

        least = objective(None, 0)
        for term in ["", "robot", "translation", "quality"]:
            for by in (-0.02, 0.02):
                assert objective(term, by) > least - 1e-6

    def test_one_class_alone_is_no_model(self) -> None:
        with pytest.raises(ValueError, match="others"):
            fit([Example(numbered_vector(*LIKED), True)])


def test_the_library_says_how_saves_are_used_and_forgets(client: Client, reader: User) -> None:
    client.force_login(reader)
    star(reader, 3)
    refused = Paper.objects.filter(title__startswith="owl").first() or Paper.objects.latest("pk")
    LibraryEntry.objects.create(reader=reader, paper=refused, not_for_me=True)
    LikedText.objects.create(reader=reader, title="Robot hands", abstract="Robot grasping.")
    feedback.learn(reader.pk)
    page = " ".join(client.get("/library/").content.decode().split())
    assert "close they are to the 4 papers that you saved or imported." in page
    assert "The 1 paper marked “Not for me” pushes papers like it down." in page
    client.post("/library/forget/")
    given = feedback.signals(reader)
    assert (given.count, given.disliked, given.texts) == (3, 0, ())
    assert "/library/forget/" not in client.get("/library/").content.decode()
