from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0002_what_servers_read")]

    operations = [
        migrations.AddField("claim", "subject", models.CharField(blank=True, max_length=300)),
        migrations.AddField("claim", "not_given", models.JSONField(default=dict)),
        migrations.AddField("claim", "contradicted_by", models.TextField(blank=True)),
        migrations.AddField("summary", "withheld", models.CharField(blank=True, max_length=200)),
    ]
