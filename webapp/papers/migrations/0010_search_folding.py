"""The index again: letters without a decomposition, simple formulas and Han characters are words."""

from importlib import import_module

from django.db import migrations

tables = import_module("webapp.papers.migrations.0001_tables")


class Migration(migrations.Migration):
    dependencies = [("papers", "0009_unicode")]

    # Backwards there is nothing to do: 0001 removes the same.
    operations = [migrations.RunPython(tables.create, migrations.RunPython.noop)]
