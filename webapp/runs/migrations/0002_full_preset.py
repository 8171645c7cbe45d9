"""The preset `standard` is now `full`, which is sized for the device."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_preset(apps: Apps, _schema: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("runs", "Run").objects.filter(preset="standard").update(preset="full")


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_squashed_0001_tables")]
    operations = [migrations.RunPython(rename_preset, migrations.RunPython.noop)]
