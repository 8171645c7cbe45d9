import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """A saved paper is a mark of the library; its table stays what and where it is."""

    dependencies = [
        ("library", "0001_initial"),
        ("digests", "0004_star_leaves"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Star",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        (
                            "paper",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="stars",
                                to="papers.paper",
                            ),
                        ),
                        (
                            "reader",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="stars",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "digests_star",
                        "ordering": ("-created_at",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("reader", "paper"), name="starred_once"
                            )
                        ],
                    },
                )
            ]
        )
    ]
