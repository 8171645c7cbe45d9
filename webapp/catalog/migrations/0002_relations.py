from django.db import migrations, models


class Migration(migrations.Migration):
    """Links say a relation with its score and evidence; all are made anew, so the old ones go."""

    dependencies = [("catalog", "0001_initial")]

    operations = [
        migrations.RunSQL("DELETE FROM catalog_methodlink", migrations.RunSQL.noop),
        migrations.RunSQL("DELETE FROM catalog_linkpulse", migrations.RunSQL.noop),
        migrations.RemoveField("methodlink", "reason"),
        migrations.RemoveField("methodlink", "words"),
        migrations.AddField(
            "methodlink",
            "relation",
            models.CharField(
                choices=[
                    ("source", "the method's own paper"),
                    ("about", "about it"),
                    ("uses", "uses or compares it"),
                    ("mentions", "mentions it"),
                ],
                default="mentions",
                max_length=8,
            ),
            preserve_default=False,
        ),
        migrations.AddField("methodlink", "score", models.FloatField(default=0.0)),
        migrations.AddField("methodlink", "evidence", models.JSONField(default=list)),
        migrations.AddField("methodlink", "confirmed", models.BooleanField(null=True)),
    ]
