"""The full-text index of `webapp.papers.search`, kept by the database itself.

SQLite: an FTS5 table over the papers, and triggers. A later migration that makes SQLite rebuild
papers_paper drops its triggers, and must run `create` again; a test watches that they stand.
PostgreSQL: a generated column and a GIN index.

A category is one word of the index: cs.CL is cs0cl, hep-th is hep1th.
"""

from django.db import migrations

NAMES = "(SELECT group_concat(json_extract(value, '$.name'), ', ') FROM json_each({row}.authors))"
CATEGORIES = (
    "(SELECT replace(replace(group_concat(value, ' '), '.', '0'), '-', '1')"
    " FROM json_each({row}.categories))"
)


def _columns(row):
    names, categories = NAMES.format(row=row), CATEGORIES.format(row=row)
    return f"{row}.id, {row}.title, {row}.abstract, {names}, {categories}"


_REMOVE = f"""
    INSERT INTO papers_search (papers_search, rowid, title, abstract, authors, categories)
    SELECT 'delete', {_columns("old")};
"""
_ADD = f"""
    INSERT INTO papers_search (rowid, title, abstract, authors, categories)
    SELECT {_columns("new")};
"""
SQLITE = (
    # Contentless: only row numbers are ever read from it, and FTS5 cannot read json_each itself.
    """
    CREATE VIRTUAL TABLE papers_search USING fts5 (
        title, abstract, authors, categories,
        content='', tokenize='porter unicode61 remove_diacritics 2', prefix='2 3'
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
SQLITE_BACK = (
    "DROP TRIGGER papers_search_change",
    "DROP TRIGGER papers_search_remove",
    "DROP TRIGGER papers_search_add",
    "DROP TABLE papers_search",
)
POSTGRESQL = (
    """
    ALTER TABLE papers_paper ADD COLUMN search tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('english', title), 'A')
        || setweight(
            to_tsvector('english', jsonb_path_query_array(authors, '$[*].name')), 'B'
        )
        || setweight(to_tsvector('english', abstract), 'C')
        || setweight(to_tsvector('english', translate(categories::text, '.-', '01')), 'D')
    ) STORED
    """,
    "CREATE INDEX papers_paper_search ON papers_paper USING gin (search)",
)
POSTGRESQL_BACK = ("ALTER TABLE papers_paper DROP COLUMN search",)


def create(apps, schema_editor):
    statements = POSTGRESQL if schema_editor.connection.vendor == "postgresql" else SQLITE
    for statement in statements:
        schema_editor.execute(statement, params=None)


def drop(apps, schema_editor):
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL_BACK if is_postgresql else SQLITE_BACK:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_initial")]

    operations = [migrations.RunPython(create, drop)]
