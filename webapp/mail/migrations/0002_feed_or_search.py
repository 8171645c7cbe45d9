from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mail", "0001_squashed_0003_fenced_lease"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("profile__isnull", False), ("q", ""),
                )
                | models.Q(("profile", None), models.Q(("q", ""), _negated=True)),
                name="a_feed_or_a_search",
            ),
        ),
    ]
