from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("digests", "0006_also_mentioned")]

    operations = [
        migrations.CreateModel(
            name="DayToBuild",
            fields=[
                ("date", models.DateField(primary_key=True, serialize=False)),
                ("asked_at", models.DateTimeField()),
            ],
            options={"verbose_name_plural": "days to build"},
        ),
    ]
