"""The index again: the script l of a formula is an l, so that l1 finds `$\\ell_1$`."""

from importlib import import_module

from django.db import migrations

tables = import_module("webapp.papers.migrations.0001_squashed_0012_fenced_lease")


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_squashed_0012_fenced_lease")]

    # Backwards there is nothing to do: 0001 removes the same.
    operations = [migrations.RunPython(tables.create, migrations.RunPython.noop)]
