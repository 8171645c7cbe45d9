from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0001_tables")]

    operations = [
        migrations.AddField(
            "servercapability",
            "prompt_characters",
            models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField("summary", "read_share", models.FloatField(default=1.0)),
    ]
