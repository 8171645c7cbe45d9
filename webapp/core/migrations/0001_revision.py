from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [
        migrations.CreateModel(
            name="Revision",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "scope",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("scope", models.CharField(max_length=100)),
                ("slot", models.PositiveSmallIntegerField()),
                ("token", models.BigIntegerField()),
            ],
        )
    ]
