"""PostgreSQL's index again: a paper's words stay in its row, where a search reads them at once."""

from importlib import import_module

from django.db import migrations

before = import_module("webapp.papers.migrations.0007_search_accents")


class Migration(migrations.Migration):
    dependencies = [("papers", "0007_search_accents")]

    operations = [migrations.RunPython(before.create, migrations.RunPython.noop)]
