from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("library", "0001_squashed_0005_shared_lists"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="readinglist",
            constraint=models.UniqueConstraint(
                condition=models.Q(("share_key", ""), _negated=True),
                fields=("share_key",),
                name="one_list_an_address",
            ),
        ),
    ]
