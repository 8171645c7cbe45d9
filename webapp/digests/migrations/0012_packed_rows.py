"""The papers beyond a digest's size are stored compressed."""

from typing import Any

from django.db import migrations

from webapp.digests.packed import PackedJSONField

BATCH = 500


def _copy(source: str, target: str) -> Any:
    """Copies a column to another, a batch at a time."""

    def copy(apps: Any, editor: Any) -> None:
        stored = apps.get_model("digests", "FurtherMatches").objects.using(editor.connection.alias)
        last = 0
        while found := list(stored.filter(pk__gt=last).order_by("pk")[:BATCH]):
            last = found[-1].pk
            for one in found:
                stored.filter(pk=one.pk).update(**{target: getattr(one, source)})

    return copy


class Migration(migrations.Migration):
    dependencies = [("digests", "0011_html_once")]
    operations = [
        migrations.AddField("furthermatches", "packed", PackedJSONField(default=list)),
        migrations.RunPython(_copy("rows", "packed"), _copy("packed", "rows"), elidable=True),
        migrations.RemoveField("furthermatches", "rows"),
        migrations.RenameField("furthermatches", "packed", "rows"),
    ]
