"""Names, titles and abstracts that were stored in TeX, in Unicode, as intake now makes them.

Papers are taken in batches that are each committed, so that no other process waits long; what is
done already changes nothing, so a migration that was stopped goes on.
"""

from django.db import migrations, transaction

from webapp.papers.names import unicode_name
from webapp.ui.markup import render, without_tex

BATCH = 500


def to_unicode(apps, schema_editor) -> None:
    alias = schema_editor.connection.alias
    for name, convert in (("Paper", _paper), ("PaperVersion", _version)):
        rows = apps.get_model("papers", name).objects.using(alias).order_by("pk")
        last = 0
        while keys := list(rows.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
            with transaction.atomic(using=alias):
                for row in rows.select_for_update().filter(pk__in=keys):
                    if changed := convert(row):
                        row.save(update_fields=changed)
            last = keys[-1]


def _paper(paper) -> list[str]:
    """The fields of a paper that change."""
    before = {name: getattr(paper, name) for name in _SHOWN}
    authors = [
        author | {name: unicode_name(text) for name, text in author.items()}
        for author in paper.authors
    ]
    for name in ("title", "abstract", "comment", "journal_ref"):
        setattr(paper, name, without_tex(before[name]))
    changed = [name for name in _SHOWN if getattr(paper, name) != before[name]]
    if "title" in changed:
        paper.title_html = render(paper.title)
    if "abstract" in changed:
        paper.abstract_html = render(paper.abstract)
    if authors != paper.authors:
        paper.authors = authors
        changed.append("authors")
    return changed + [f"{name}_html" for name in changed if name in {"title", "abstract"}]


_SHOWN = ("title", "abstract", "comment", "journal_ref")


def _version(version) -> list[str]:
    before = version.title, version.abstract
    version.title = without_tex(version.title)
    version.abstract = without_tex(version.abstract)
    return ["title", "abstract"] if (version.title, version.abstract) != before else []


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("papers", "0008_search_in_the_row")]

    operations = [migrations.RunPython(to_unicode, migrations.RunPython.noop)]
