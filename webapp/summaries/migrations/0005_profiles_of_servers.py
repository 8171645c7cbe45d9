from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0004_answers_under_way")]

    operations = [
        migrations.AddField(
            "servercapability", "context", models.PositiveIntegerField(blank=True, null=True)
        ),
        migrations.AddField("servercapability", "takes_bounds", models.BooleanField(default=False)),
    ]
