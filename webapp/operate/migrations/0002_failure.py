from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("health", "0001_tables")]

    operations = [
        migrations.CreateModel(
            "Failure",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.CharField(max_length=128, unique=True)),
                ("error", models.CharField(max_length=300)),
                ("periodic", models.BooleanField()),
                ("since", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("times", models.PositiveIntegerField(default=1)),
            ],
        )
    ]
