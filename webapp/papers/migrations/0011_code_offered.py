"""Where the full text offers the authors' code.

The column is added by SQL: Django would remake the table on SQLite, and the triggers that keep the
search index would go with the old one.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("papers", "0010_search_folding")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE papers_paper ADD COLUMN code_offered varchar(255) DEFAULT '' NOT NULL",
            "ALTER TABLE papers_paper DROP COLUMN code_offered",
            state_operations=[
                migrations.AddField(
                    "paper", "code_offered", models.CharField(blank=True, max_length=255)
                )
            ],
        )
    ]
