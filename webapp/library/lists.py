"""Changes of a reader's lists."""

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.utils.translation import gettext

from webapp.library.models import MAX_LISTS, ReadingList
from webapp.papers.models import Paper

MAX_NAME = 80


class ListError(ValueError):
    """A list that cannot be. The message is for the reader."""


def clean_name(text: str) -> str:
    """Return the name of a list without superfluous spaces. Raises ListError."""
    name = " ".join(text.split())
    if not name or len(name) > MAX_NAME:
        raise ListError(gettext("Write the name of a list, at most 80 characters."))
    return name


def named_list(reader: User, text: str) -> ReadingList:
    """Return the reader's list of this name, created if there is none. Raises ListError."""
    name, lists = clean_name(text), ReadingList.objects.filter(reader=reader)
    if lists.count() >= MAX_LISTS and not lists.filter(name=name).exists():
        most = gettext("The limit is %(most)d lists. Delete one to create another.")
        raise ListError(most % {"most": MAX_LISTS})
    return lists.get_or_create(reader=reader, name=name)[0]


def set_lists(reader: User, paper: Paper, names: Iterable[str]) -> None:
    """Put a paper on the lists of these names, and take it off all others. Raises ListError."""
    chosen = [named_list(reader, name) for name in names]
    for listed in chosen:
        listed.papers.add(paper)
    for listed in ReadingList.objects.filter(reader=reader, papers=paper):
        if listed not in chosen:
            listed.papers.remove(paper)
