"""The index again, as `0001_tables` makes it today, where an older version made it.

A search finds the latest papers that hold its words first, and reads no others; titles and authors
have their own. On PostgreSQL it holds words among punctuation, letters lose all of several accents,
and a paper's words stay in its row.
"""

from importlib import import_module

from django.db import migrations

tables = import_module("webapp.papers.migrations.0001_tables")


class Migration(migrations.Migration):
    dependencies = [("papers", "0007_search_accents")]

    # Backwards there is nothing to do: 0001 removes the same.
    operations = [migrations.RunPython(tables.create, migrations.RunPython.noop)]
