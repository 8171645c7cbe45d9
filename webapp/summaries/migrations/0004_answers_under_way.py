import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0003_grounded_whole")]

    operations = [
        migrations.AddField("summary", "written", models.PositiveIntegerField(default=0)),
        migrations.AlterField(
            "modelcall",
            "summary",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="calls",
                to="summaries.summary",
            ),
        ),
    ]
