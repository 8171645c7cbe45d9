from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0001_tables")]

    operations = [
        migrations.AddField("delivery", "leased_until", models.DateTimeField(blank=True, null=True))
    ]
