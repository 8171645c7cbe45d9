"""A claim says how much of it stands in the text, and what of it is the model's reading."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def states_of_verified(apps: Any, _: Any) -> None:
    """What was verified keeps number and unit; of the rest nothing better is known."""
    apps.get_model("summaries", "Claim").objects.filter(verified=True).update(
        state="number and unit"
    )


class Migration(migrations.Migration):
    dependencies = [("summaries", "0001_initial")]

    operations = [
        migrations.AddField(
            "claim",
            "state",
            models.CharField(
                choices=[
                    ("number and unit", "number and unit found in the text"),
                    ("number only", "number found, its unit is not written there"),
                    ("not found", "not found in the text"),
                ],
                default="not found",
                max_length=15,
            ),
            preserve_default=False,
        ),
        migrations.AddField("claim", "metric_near", models.BooleanField(default=False)),
        migrations.AddField("claim", "direction_near", models.BooleanField(default=False)),
        migrations.RunPython(states_of_verified, migrations.RunPython.noop),
        migrations.RemoveField("claim", "verified"),
    ]
