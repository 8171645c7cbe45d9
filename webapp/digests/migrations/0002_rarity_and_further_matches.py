from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("digests", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="FurtherMatches",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rows", models.JSONField(default=list)),
                (
                    "digest",
                    models.OneToOneField(
                        on_delete=models.deletion.CASCADE,
                        related_name="further",
                        to="digests.digest",
                    ),
                ),
            ],
            options={"verbose_name_plural": "further matches"},
        ),
        migrations.AddField(
            model_name="profile",
            name="counted_on",
            field=models.DateField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name="profile",
            name="matching",
            field=models.CharField(
                choices=[
                    ("rarity", "words and phrases, weighted by rarity"),
                    ("token", "words and phrases, points as written"),
                    ("substring", "substrings, exactly as the seed bot"),
                ],
                default="token",
                max_length=9,
            ),
        ),
    ]
