"""What people correct of links: whether a paper is about a method, and by which mechanism.

The last correction of a paper and a method wins over everything computed, until it is undone.
Each is kept with who made it, and all are exported as labels.
"""

from collections.abc import Iterator

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.catalog import linking
from webapp.catalog.models import LinkCorrection, MethodLink
from webapp.papers.models import Paper


@transaction.atomic
def correct(
    paper: Paper, method: str, reader: User, *, about: bool = True, mechanism: str | None = None
) -> LinkCorrection:
    """Store that a paper is about a method or not, and its mechanism: "" is none of ours."""
    made = LinkCorrection.objects.create(
        paper=paper, method=method, reader=reader, about=about, mechanism=mechanism
    )
    _apply(paper, method)
    return made


@transaction.atomic
def undo(paper: Paper, method: str) -> bool:
    """Undo the last correction of a paper and a method; the one before it counts again."""
    last = _active(paper, method).first()
    if last is None:
        return False
    last.undone_at = timezone.now()
    last.save(update_fields=["undone_at"])
    _apply(paper, method)
    return True


def labels() -> Iterator[dict[str, str | None]]:
    """Every paper and method with its last correction, as `link_papers --report` reads labels."""
    seen: set[tuple[int, str]] = set()
    rows = LinkCorrection.objects.filter(undone_at=None).select_related("paper")
    for row in rows.order_by("-pk"):
        if (row.paper_id, row.method) not in seen:
            seen.add((row.paper_id, row.method))
            relation = "about" if row.about else "none"
            yield {
                "id": row.paper.arxiv_id,
                "method": row.method,
                "relation": relation,
                "mechanism": row.mechanism,
            }


def _active(paper: Paper, method: str) -> QuerySet[LinkCorrection]:
    rows = LinkCorrection.objects.filter(paper=paper, method=method, undone_at=None)
    return rows.order_by("-pk")


def _apply(paper: Paper, method: str) -> None:
    """Write what the last correction says to the link, which pages read."""
    last = _active(paper, method).first()
    values = {
        "confirmed": last.about if last else None,
        "mechanism": last.mechanism if last and last.about else None,
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
