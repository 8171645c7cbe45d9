"""PostgreSQL's index again, with the words that stand among punctuation.

Its parser takes `<mask>` for a tag and leaves it out. Punctuation becomes blanks before it reads,
so that words are what they are in SQLite's index and in queries: letters and digits alone.
"""

from importlib import import_module

from django.db import migrations

before = import_module("webapp.papers.migrations.0001_tables")


def create(apps, schema_editor) -> None:
    """What `0001_tables` makes today, where it was made before."""
    if schema_editor.connection.vendor == "postgresql":
        before.drop(apps, schema_editor)
        before.create(apps, schema_editor)


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_tables")]

    # Backwards there is nothing to do: what 0001 removes has the same names.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
