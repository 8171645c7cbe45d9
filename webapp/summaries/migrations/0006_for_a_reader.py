from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0005_profiles_of_servers")]

    operations = [
        migrations.AddField("summary", "for_reader", models.BooleanField(default=False)),
    ]
