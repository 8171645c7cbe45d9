"""The papers that a model was learned from are stored as numbers, which are read in a tenth."""

from typing import Any

from django.db import migrations, models

from webapp.learning.preferences import LearnedPaper, packed_examples


def pack(apps: Any, editor: Any) -> None:
    """Pack the examples of each model."""
    learned = apps.get_model("digests", "LearnedModel").objects.using(editor.connection.alias)
    for model in learned.only("examples").iterator(chunk_size=50):
        papers = [LearnedPaper(e["title"], e["id"], e["liked"], e["terms"]) for e in model.examples]
        learned.filter(pk=model.pk).update(examples=packed_examples(papers))


def forget(apps: Any, editor: Any) -> None:
    """Before, each model is learned again."""
    apps.get_model("digests", "LearnedModel").objects.using(editor.connection.alias).all().delete()


class Migration(migrations.Migration):
    dependencies = [("digests", "0012_packed_rows")]
    operations = [
        migrations.AlterField("learnedmodel", "examples", models.JSONField(default=dict)),
        migrations.RunPython(pack, forget, elidable=True),
    ]
