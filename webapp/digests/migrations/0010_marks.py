"""An entry keeps the places of its matches; its paper's HTML, with links, stands once."""

import json
import re
from typing import Any

from django.db import migrations, models

from webapp.digests.marks import marks_of, version_of, without_marks

BATCH = 1_000
TAG = re.compile(r"<[^<>]*>")


def keep_marks(apps: Any, editor: Any) -> None:
    """The marks of each entry, and the links that only entries had for the paper."""
    entries = apps.get_model("digests", "DigestEntry").objects.using(editor.connection.alias)
    papers = apps.get_model("papers", "Paper").objects.using(editor.connection.alias)
    marks = "UPDATE digests_digestentry SET marks = %s WHERE id = %s"
    html = "UPDATE papers_paper SET abstract_html = %s WHERE id = %s"
    last, linked = 0, set[int]()
    columns = "pk", "paper_id", "title_html", "abstract_html"
    while rows := list(
        entries.filter(pk__gt=last).order_by("pk").values_list(*columns)[:BATCH]
    ):
        last = rows[-1][0]
        shown = papers.filter(pk__in={paper for _, paper, *_ in rows})
        texts = {key: text for key, *text in shown.values_list("pk", "title", "abstract")}
        found = [
            (json.dumps(_marks(title, abstract, texts[paper])), key)
            for key, paper, title, abstract in rows
        ]
        with_links = {
            paper: without_marks(abstract)
            for _, paper, _, abstract in rows
            if "<a " in abstract and paper not in linked
        }
        stored = dict(papers.filter(pk__in=with_links).values_list("pk", "abstract_html"))
        same = [
            (text, paper)
            for paper, text in with_links.items()
            if TAG.sub("", text) == TAG.sub("", stored[paper])
        ]
        linked.update(paper for _, paper in same)
        with editor.connection.cursor() as cursor:
            cursor.executemany(marks, found)
            cursor.executemany(html, same)


def _marks(title: str, abstract: str, text: list[str]) -> dict[str, Any]:
    return {"title": marks_of(title), "abstract": marks_of(abstract), "text": version_of(*text)}


class Migration(migrations.Migration):
    dependencies = [("digests", "0009_untouched_defaults"), ("papers", "0001_tables")]
    operations = [
        migrations.AddField("digestentry", "marks", models.JSONField(default=dict)),
        migrations.RunPython(keep_marks, migrations.RunPython.noop, elidable=True),
    ]
