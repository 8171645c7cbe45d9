from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0006_for_a_reader")]

    operations = [
        migrations.AddField(
            "servercapability", "slots", models.PositiveSmallIntegerField(null=True, blank=True)
        ),
    ]
