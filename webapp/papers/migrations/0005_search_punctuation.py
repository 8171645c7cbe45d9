"""PostgreSQL's index again, with the words that stand among punctuation: 0006 makes all of it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_tables")]

    operations = []
