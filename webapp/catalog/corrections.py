"""Readers' corrections of links: a paper's relation to a method, and its mechanism.

They are kept with all other corrections (`webapp.claims.corrections`).
"""

from django.contrib.auth.models import User

from webapp.catalog import linking
from webapp.catalog.models import MethodLink
from webapp.claims import corrections
from webapp.claims.models import Correction
from webapp.papers.models import Paper

LINK = Correction.Kind.LINK


def correct(
    paper: Paper, method: str, reader: User, *, about: bool = True, mechanism: str | None = None
) -> Correction:
    """Store that a paper is about a method or not, and its mechanism: "" is none of ours."""
    value = {"mechanism": mechanism} if about else None
    return corrections.correct(paper, LINK, method, value, reader)


def undo(paper: Paper, method: str) -> bool:
    """Undo the last correction of a paper and a method; the one before it counts again."""
    return corrections.undo_last(paper, LINK, method)


def apply(paper: Paper, method: str, /) -> None:
    """Write the last correction to the link, which pages read."""
    last = corrections.active(paper).filter(kind=LINK, subject=method).last()
    values = {
        "confirmed": last.value is not None if last else None,
        "mechanism": last.value["mechanism"] if last and last.value else None,
    }
    created = {"relation": MethodLink.Relation.ABOUT, **values}
    if last:
        MethodLink.objects.update_or_create(
            paper=paper, method=method, defaults=values, create_defaults=created
        )
    else:
        MethodLink.objects.filter(paper=paper, method=method).update(**values)
        linking.link(Paper.objects.filter(pk=paper.pk))
    linking.note_change()
