"""Keep corrections of links with all other corrections."""

from typing import Any

from django.db import migrations


def move(apps: Any, _editor: Any) -> None:
    correction = apps.get_model("claims", "Correction")
    for old in apps.get_model("catalog", "LinkCorrection").objects.order_by("pk").iterator():
        correction.objects.create(
            paper_id=old.paper_id,
            kind="link",
            subject=old.method,
            value={"mechanism": old.mechanism} if old.about else None,
            reader_id=old.reader_id,
            made_at=old.made_at,
            undone_at=old.undone_at,
        )


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0004_corrections"),
        ("claims", "0005_correction"),
    ]

    operations = [
        migrations.RunPython(move, migrations.RunPython.noop),
        migrations.DeleteModel(name="LinkCorrection"),
    ]
