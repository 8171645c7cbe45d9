from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0002_linking_state")]

    operations = [
        migrations.AddField(
            model_name="linkingstate",
            name="relinking_below",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
