"""The index again, in the order of days announced, and titles and authors by themselves.

So a search finds the latest papers that hold its words first, and reads no others.
"""

from importlib import import_module

from django.db import migrations

before = import_module("webapp.papers.migrations.0001_tables")


def create(apps, schema_editor) -> None:
    """What `0001_tables` makes today, where it was made before."""
    before.drop(apps, schema_editor)
    before.create(apps, schema_editor)


class Migration(migrations.Migration):
    dependencies = [("papers", "0005_search_punctuation")]

    # Backwards there is nothing to do: what 0001 removes has the same names.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
