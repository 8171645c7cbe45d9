from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0002_lease")]

    operations = [
        migrations.AddField(
            "delivery", "lease", models.CharField(blank=True, default="", max_length=36), False
        )
    ]
