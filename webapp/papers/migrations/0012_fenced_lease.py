from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("papers", "0011_code_offered")]

    operations = [
        migrations.RenameField("arxivslot", "holder", "lease"),
        migrations.RenameField("arxivslot", "held_until", "leased_until"),
        migrations.AlterField("arxivslot", "lease", models.CharField(blank=True, max_length=36)),
        migrations.AlterField(
            "arxivslot", "leased_until", models.DateTimeField(blank=True, null=True)
        ),
    ]
