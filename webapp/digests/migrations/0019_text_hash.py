"""Marks are made where an entry is shown, and chips are read from the paper's row."""

from typing import Any

from django.db import migrations, models
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce


def copy_hashes(apps: Any, schema_editor: Any) -> None:
    """Keep the hash of each entry's text, by which its time of change stays."""
    entries = apps.get_model("digests", "DigestEntry").objects.all()
    entries.update(text_hash=Coalesce(KT("marks__text"), models.Value("")))


class Migration(migrations.Migration):
    dependencies = [("digests", "0018_plain_choices")]
    operations = [
        migrations.AddField(
            model_name="digestentry",
            name="text_hash",
            field=models.CharField(default="", max_length=8),
            preserve_default=False,
        ),
        migrations.RunPython(copy_hashes, migrations.RunPython.noop),
        migrations.RemoveField(model_name="digestentry", name="chips"),
        migrations.RemoveField(model_name="digestentry", name="marks"),
    ]
