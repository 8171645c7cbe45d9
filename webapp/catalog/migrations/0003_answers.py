from django.db import migrations, models


class Migration(migrations.Migration):
    """Up to which summary a model's answers were looked at."""

    dependencies = [("catalog", "0002_relations")]

    operations = [
        migrations.AddField("linkpulse", "answered_until", models.DateTimeField(null=True)),
    ]
