"""PostgreSQL's index again, with the words that stand among punctuation.

Its parser takes `<mask>` for a tag and leaves it out. Punctuation becomes blanks before it reads,
so that words are what they are in SQLite's index and in queries: letters and digits alone.
"""

from importlib import import_module

from django.db import migrations

before = import_module("webapp.papers.migrations.0001_tables")


def _words(text):
    return f"translate({before._unaccented(text)}, '<>/@.-_', '       ')"


POSTGRESQL = (
    "ALTER TABLE papers_paper DROP COLUMN search",
    f"""
    ALTER TABLE papers_paper ADD COLUMN search tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('english', {_words("title")}), 'A')
        || setweight(to_tsvector('english', {_words(before._AUTHORS)}), 'B')
        || setweight(to_tsvector('english', {_words("abstract")}), 'C')
        || setweight(to_tsvector('english', translate(categories::text, '.-', '01')), 'D')
    ) STORED
    """,
    "CREATE INDEX papers_paper_search ON papers_paper USING gin (search)",
)


def create(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for statement in POSTGRESQL:
            schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_tables")]

    # Backwards there is nothing to do: what 0001 removes has the same names.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
