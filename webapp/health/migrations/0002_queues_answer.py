from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("health", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="heartbeat",
            name="kind",
            field=models.CharField(choices=[("beat", "beat"), ("queue", "queue")], max_length=6),
        ),
    ]
