"""Runs know the paper that asked for them, and quick measurements stand beside the others."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def set_quick_rows_apart(apps: Apps, _schema: BaseDatabaseSchemaEditor) -> None:
    standing = apps.get_model("runs", "StandingMeasurement").objects
    standing.filter(series__run__preset="quick").update(subset="quick")


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_squashed_0012_fenced_lease"), ("runs", "0002_full_preset")]
    operations = [
        migrations.AddField("run", "mechanism", models.CharField(blank=True, max_length=64, default=""), preserve_default=False),
        migrations.AddField(
            "run",
            "paper",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="runs",
                to="papers.paper",
            ),
        ),
        migrations.AddField("standingmeasurement", "subset", models.CharField(blank=True, max_length=200, default=""), preserve_default=False),
        migrations.RemoveConstraint("standingmeasurement", "one_stands"),
        migrations.AddConstraint(
            "standingmeasurement",
            models.UniqueConstraint(
                fields=["method", "benchmark", "name", "hardware", "version", "subset"],
                name="one_stands",
            ),
        ),
        migrations.RunPython(set_quick_rows_apart, migrations.RunPython.noop),
    ]
