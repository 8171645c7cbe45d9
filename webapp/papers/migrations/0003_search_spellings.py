"""The full-text index again, with C++ and C# as words and, on PostgreSQL too, without accents.

SQLite: an FTS5 table over the papers, and triggers. A later migration that makes SQLite rebuild
papers_paper drops its triggers, and must run `create` again; a test watches that they stand.
PostgreSQL: a generated column and a GIN index.
"""

import unicodedata

from django.db import migrations

NAMES = "(SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each({row}.authors))"
CATEGORIES = (
    "(SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')"
    " FROM json_each({row}.categories))"
)
ACCENTED = [
    chr(code)
    for code in range(0xC0, 0x180)
    if unicodedata.normalize("NFKD", chr(code))[0].isascii()
    and len(unicodedata.normalize("NFKD", chr(code))) == 2
    and chr(code).islower()
]
PLAIN = "".join(unicodedata.normalize("NFKD", letter)[0] for letter in ACCENTED)


def _spelled(text):
    return f"replace(replace(lower({text}), 'c++', 'cplusplus'), 'c#', 'csharp')"


def _unaccented(text):
    return f"translate({_spelled(text)}, '{''.join(ACCENTED)}', '{PLAIN}')"


def _columns(row):
    title, abstract = _spelled(f"{row}.title"), _spelled(f"{row}.abstract")
    names, categories = NAMES.format(row=row), CATEGORIES.format(row=row)
    return f"{row}.id, {title}, {abstract}, {names}, {categories}"


_REMOVE = f"""
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', {_columns("old")};
"""
_ADD = f"""
    INSERT INTO papers_search (rowid, title, abstract, authors, categories)
    SELECT {_columns("new")};
"""
SQLITE = (
    "DROP TRIGGER papers_search_change",
    "DROP TRIGGER papers_search_remove",
    "DROP TRIGGER papers_search_add",
    "DROP TABLE papers_search",
    # Contentless: only row numbers are ever read from it, and FTS5 cannot read json_each itself.
    """
    CREATE VIRTUAL TABLE papers_search USING fts5 (
        title, abstract, authors, categories,
        content='', tokenize='porter unicode61 remove_diacritics 2', prefix='2 3 4'
    )
    """,
    f"CREATE TRIGGER papers_search_add AFTER INSERT ON papers_paper BEGIN {_ADD} END",
    f"CREATE TRIGGER papers_search_remove AFTER DELETE ON papers_paper BEGIN {_REMOVE} END",
    f"""
    CREATE TRIGGER papers_search_change AFTER UPDATE ON papers_paper
    WHEN old.title IS NOT new.title OR old.abstract IS NOT new.abstract
        OR old.authors IS NOT new.authors OR old.categories IS NOT new.categories
    BEGIN {_REMOVE} {_ADD} END
    """,
    f"""
    INSERT INTO papers_search (rowid, title, abstract, authors, categories)
    SELECT {_columns("paper")} FROM papers_paper AS paper
    """,
)
_AUTHORS = "jsonb_path_query_array(authors, '$[*].name')::text"
POSTGRESQL = (
    "ALTER TABLE papers_paper DROP COLUMN search",
    f"""
    ALTER TABLE papers_paper ADD COLUMN search tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('english', {_unaccented("title")}), 'A')
        || setweight(to_tsvector('english', {_unaccented(_AUTHORS)}), 'B')
        || setweight(to_tsvector('english', {_unaccented("abstract")}), 'C')
        || setweight(to_tsvector('english', translate(categories::text, '.-', '01')), 'D')
    ) STORED
    """,
    "CREATE INDEX papers_paper_search ON papers_paper USING gin (search)",
)


def create(apps, schema_editor):
    statements = POSTGRESQL if schema_editor.connection.vendor == "postgresql" else SQLITE
    for statement in statements:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [("papers", "0002_search")]

    # Backwards there is nothing to do: what 0002 removes has the same names.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
