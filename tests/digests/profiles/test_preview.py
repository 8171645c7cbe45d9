import pytest

from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile, shown
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.preview import preview_profile
from webapp.digests.profiles.validation import load_rules
from webapp.digests.scoring.rules import Keyword, Rules


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
        new = Rules((Keyword("zebra"), Keyword("models")), categories=("cs.CL",))
        tuesday, monday = preview_profile(mine, load_rules(mine), new)
        assert (monday.date, monday.before, monday.after) == (MONDAY, 2, 3)
        assert [one.entry.paper.arxiv_id for one in monday.added] == ["2603.00003"]
        assert not monday.dropped
        moved = {one.entry.paper.arxiv_id: one.place for one in monday.moved}
        assert moved == {"2603.00002": "2→1", "2603.00001": "1→3"}
        # The zebra stood in Monday's digest, so it does not come again.
        assert [one.entry.paper.arxiv_id for one in tuesday.moved] == []
        assert (tuesday.before, tuesday.after) == (1, 1)

    def test_the_same_rules_change_nothing(self) -> None:
        mine = self.days()
        assert all(day.is_same for day in preview_profile(mine, load_rules(mine), load_rules(mine)))

    def test_it_says_what_saving_then_does(self) -> None:
        mine = self.days()
        new = Rules((Keyword("zebra"),), categories=("cs.CL",))
        changes = preview_profile(mine, load_rules(mine), new)
        mine.keywords = [{"keyword": "zebra", "weight": 1.0, "title_bonus": 0.5}]
        mine.announce_types = ["new", "cross", "replace", "replace-cross"]
        mine.save()
        build([MONDAY, TUESDAY], [mine])
        for day in changes:
            assert len(shown(mine, day.date)) == day.after
            assert {one.entry.paper.arxiv_id for one in day.added} <= set(shown(mine, day.date))

    def test_a_new_profile_only_adds(self) -> None:
        self.days()
        new = Rules((Keyword("zebra"),), categories=("cs.CL",))
        changes = preview_profile(None, None, new)
        assert [(day.before, len(day.added), len(day.dropped)) for day in changes] == [
            (0, 1, 0),
            (0, 1, 0),
        ]

    def test_it_writes_nothing(self) -> None:
        mine = self.days()
        before = list(mine.digests.values())
        preview_profile(mine, load_rules(mine), Rules((Keyword("zebra"),)))
        assert list(mine.digests.values()) == before
