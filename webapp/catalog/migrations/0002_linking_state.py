from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_tables")]

    operations = [
        migrations.RenameModel("LinkPulse", "LinkingState"),
        migrations.RenameField("LinkingState", "signs", "fingerprint"),
    ]
