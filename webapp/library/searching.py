"""A reader's own fields in every search: `is:unread`, `tag:kernels`, `list:"to cite"`, `note:`."""

from collections.abc import Callable

from django.contrib.auth.models import User
from django.utils.translation import gettext

from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.search.query import QueryError, words_of

_STATES = "saved, unread, read, noted, left"


def _is(value: str, reader: User) -> list[int]:
    stars = Star.objects.filter(reader=reader).values_list("paper", flat=True)
    entries = LibraryEntry.objects.filter(reader=reader).values_list("paper", flat=True)
    read = entries.filter(read_at__isnull=False)
    states = {
        "saved": stars,
        "unread": stars.exclude(paper__in=read),
        "read": read,
        "noted": entries.exclude(note=""),
        "left": entries.filter(not_for_me=True),
    }
    if value not in states:
        raise QueryError(
            gettext("“is:%(value)s” is not known; is: has %(states)s.")
            % {"value": value, "states": _STATES}
        )
    return list(states[value])


def _tag(value: str, reader: User) -> list[int]:
    entries = LibraryEntry.objects.filter(reader=reader).exclude(tags=[])
    tagged = entries.values_list("paper", "tags")
    return [paper for paper, tags in tagged if value.lower() in map(str.lower, tags)]


def _list(value: str, reader: User) -> list[int]:
    lists = ReadingList.objects.filter(reader=reader).values_list("pk", "name")
    named = [key for key, name in lists if name.lower() == value.lower()]
    through = ReadingList.papers.through.objects.filter(readinglist__in=named)
    return list(through.values_list("paper", flat=True))


def _note(value: str, reader: User) -> list[int]:
    """Papers whose note holds the words one after the other."""
    wanted = f" {' '.join(words_of(value))} "
    notes = LibraryEntry.objects.filter(reader=reader).exclude(note="").values_list("paper", "note")
    return [paper for paper, note in notes if wanted in f" {' '.join(words_of(note))} "]


def _own(
    field: str, find: Callable[[str, User], list[int]]
) -> Callable[[str, User | None], list[int]]:
    def papers(value: str, reader: User | None) -> list[int]:
        if reader is None:
            raise QueryError(
                gettext("“%(field)s:” searches your own library: sign in first.") % {"field": field}
            )
        return find(value, reader)

    return papers


FIELDS = {
    field: _own(field, find)
    for field, find in {"is": _is, "tag": _tag, "list": _list, "note": _note}.items()
}
