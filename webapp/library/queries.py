"""Reads of a reader's library for pages and exports."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Lower
from django.utils.translation import gettext

from webapp.core.input import fingerprint, number_in
from webapp.digests.models import LearnedModel
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star, ZoteroItem
from webapp.papers.models import Paper
from webapp.papers.queries import rows
from webapp.papers.search import matching
from webapp.papers.search.query import QueryError, words_of
from webapp.ui.personal import Shelf

SHOWN = {
    "all": "All",
    "saved": "Saved",
    "unread": "Saved, not read",
    "read": "Read",
    "notes": "With notes",
    "left": "Not for me",
}


@dataclass(frozen=True)
class Choice:
    """A part of a library: by state, or one list."""

    show: str = "all"
    of_list: ReadingList | None = None

    @property
    def title(self) -> str:
        """The name of the part."""
        return self.of_list.name if self.of_list else SHOWN[self.show]

    @property
    def is_all(self) -> bool:
        """True of the whole library."""
        return self.show == "all" and not self.of_list

    @property
    def query(self) -> str:
        """The query string for it."""
        return f"list={self.of_list.pk}" if self.of_list else f"show={self.show}"


def choice(reader: User, given: dict[str, str]) -> Choice:
    """Return the part in a query string; all by default."""
    lists = ReadingList.objects.filter(reader=reader, pk=number_in(given.get("list", "")))
    show = given.get("show", "")
    return Choice(show if show in SHOWN else "all", lists.first())


def keys(reader: User, part: Choice) -> list[int]:
    """The keys of a part's papers, the last added or changed first."""
    if part.of_list:
        listed = part.of_list.papers.through.objects.filter(readinglist=part.of_list)
        return list(listed.order_by("-pk").values_list("paper", flat=True))
    return list(_by_state(reader)[part.show])


def _by_state(reader: User) -> dict[str, Iterable[int]]:
    """Return the keys of a reader's papers in each of SHOWN, the last added or changed first.

    All are those that the reader saved, wrote something about, or put on a list.
    """
    stars = Star.objects.filter(reader=reader).values_list("paper", flat=True)
    entries = LibraryEntry.objects.filter(reader=reader).values_list("paper", flat=True)
    read = entries.filter(read_at__isnull=False)
    through = ReadingList.papers.through.objects.filter(readinglist__reader=reader)
    listed = through.order_by("-pk").values_list("paper", flat=True)
    notes = entries.exclude(note="")
    return {
        "all": dict.fromkeys([*stars, *notes, *listed]),
        "saved": stars,
        "unread": stars.exclude(paper__in=read),
        "read": read.order_by("-read_at"),
        "notes": notes,
        "left": entries.filter(not_for_me=True),
    }


SORTS = {
    "added": "Last added",
    "announced": "Last announced",
    "title": "Title",
    "relevance": "Most relevant",
}


def matching_keys(reader: User, part: Choice, q: str, sort: str) -> list[int]:
    """The keys of a part's papers that match `q`, in the order of one of SORTS.

    Without words no paper is more relevant: then the last added come first. Raises QueryError.
    """
    among = keys(reader, part)
    matched = matching(q, among, reader) if q else among
    if sort == "relevance":
        return matched
    if sort == "added":
        listed = set(matched)
        return [key for key in among if key in listed]
    ordered = Paper.objects.filter(pk__in=matched)
    if sort == "title":
        ordered = ordered.order_by(Lower("title"), "pk")
    else:
        ordered = ordered.order_by(F("announced_on").desc(nulls_last=True), "-pk")
    return list(ordered.values_list("pk", flat=True))


def papers(keys: Sequence[int]) -> list[Paper]:
    """The papers of these keys, in their order."""
    papers = Paper.objects.in_bulk(keys)
    return [papers[key] for key in keys if key in papers]


def panel_state(entry: LibraryEntry, lists: set[int]) -> str:
    """Return a short hash of a paper's note and lists, as its page shows them."""
    return fingerprint((entry.note, sorted(lists)))


def lists_of_papers(reader: User, papers: Iterable[int]) -> dict[int, list[str]]:
    """Return the names of the reader's lists that each paper is on; one query."""
    through = ReadingList.papers.through.objects
    rows = through.filter(readinglist__reader=reader, paper__in=list(papers))
    names: dict[int, list[str]] = {}
    for paper, name in rows.order_by("readinglist__name").values_list("paper", "readinglist__name"):
        names.setdefault(paper, []).append(name)
    return names


# In SQL for speed: it runs for every page of papers of a signed-in reader.
_SHELF = """
    SELECT paper_id, TRUE, FALSE, NULL FROM digests_star
    WHERE reader_id = %s AND paper_id IN ({keys})
    UNION ALL
    SELECT paper_id, FALSE, not_for_me, read_at FROM library_libraryentry
    WHERE reader_id = %s AND paper_id IN ({keys})
"""


def shelf_of(reader: User, keys: Sequence[int]) -> Shelf:
    """A reader's marks on papers, by their keys; one query."""
    if not keys:
        return Shelf()
    marks = rows(_SHELF.format(keys=", ".join(map(str, keys))), [reader.pk, reader.pk])
    return Shelf(
        {key for key, starred, *_ in marks if starred},
        {key for key, _, left, _ in marks if left},
        {key for key, *_, read_at in marks if read_at},
    )


def learned(reader: User) -> tuple[LearnedModel | None, list[str], list[str]]:
    """A reader's model, and the words with its largest positive and negative weights."""
    model = LearnedModel.objects.filter(reader=reader, source="").first()
    if model is None:
        return None, [], []
    ordered = sorted(model.weights.items(), key=lambda item: -item[1])
    liked = [word for word, weight in ordered[:12] if weight > 0]
    return model, liked, [word for word, weight in ordered[::-1][:8] if weight < 0]


def feedback_counts(reader: User) -> dict[str, int]:
    """Return how many papers of each kind feeds learn from."""
    entries = LibraryEntry.objects.filter(reader=reader)
    saved, texts, zotero = (
        model.objects.filter(reader=reader).count() for model in (Star, LikedText, ZoteroItem)
    )
    return {
        "liked": saved + texts + zotero,
        "texts": texts,
        "read": entries.exclude(read_at=None).count(),
        "not_for_me": entries.filter(not_for_me=True).count(),
    }


# A reader's own fields in every search: `is:unread`, `list:"to cite"`, `note:`.


def _is(value: str, reader: User) -> list[int]:
    by_state = _by_state(reader)
    states = by_state | {"noted": by_state.pop("notes")}
    if value not in states:
        names = {"value": value, "states": "all, saved, unread, read, noted, left"}
        raise QueryError(gettext("There is no “is:%(value)s”. Use one of %(states)s.") % names)
    return list(states[value])


def _list(value: str, reader: User) -> list[int]:
    lists = ReadingList.objects.filter(reader=reader).values_list("pk", "name")
    named = [key for key, name in lists if name.lower() == value.lower()]
    through = ReadingList.papers.through.objects.filter(readinglist__in=named)
    return list(through.values_list("paper", flat=True))


def _note(value: str, reader: User) -> list[int]:
    """Papers whose note holds the words one after the other."""
    phrase = f" {' '.join(words_of(value))} "
    notes = LibraryEntry.objects.filter(reader=reader).exclude(note="").values_list("paper", "note")
    return [paper for paper, note in notes if phrase in f" {' '.join(words_of(note))} "]


def _readers_field(
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
    field: _readers_field(field, find)
    for field, find in {"is": _is, "list": _list, "note": _note}.items()
}
