"""PostgreSQL's index again: letters with several accents, as in Vietnamese, lose all of them."""

from importlib import import_module

from django.db import migrations

before = import_module("webapp.papers.migrations.0001_tables")


def create(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        before.drop(apps, schema_editor)
        before.create(apps, schema_editor)


class Migration(migrations.Migration):
    dependencies = [("papers", "0006_search_by_day")]

    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
