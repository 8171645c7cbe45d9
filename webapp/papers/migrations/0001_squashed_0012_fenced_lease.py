"""The tables of papers in version 0.1.0, and the full-text index of `webapp.papers.search`.

The index is kept by the database itself. SQLite: an FTS5 table over the papers, and triggers. A
later migration that makes SQLite rebuild papers_paper drops its triggers, and must run `create`
again; a test watches that they stand. PostgreSQL: a generated column and a GIN index.

A category is one word of the index: cs.CL is cs0cl, hep-th is hep1th.
"""

import re
from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

from webapp.papers import folding

SQL = Path(__file__).parent


def create(apps, schema_editor) -> None:
    """Make the index, in place of one that is there."""
    for statement in _statements(schema_editor.connection.vendor):
        schema_editor.execute(statement, params=None)


def drop(apps, schema_editor) -> None:
    for statement in _statements(schema_editor.connection.vendor):
        if "IF EXISTS" in statement:
            schema_editor.execute(statement, params=None)


def _statements(vendor: str) -> list[str]:
    """Those of `search.sqlite.sql` or `search.postgresql.sql`, which `--;` divides.

    In place of `{of X}` stands the file of words with X for `{}`: on SQLite what the index holds
    of a row, on PostgreSQL a text as the index reads it.
    """
    words = (SQL / f"search_words.{vendor}.sql").read_text("utf-8")
    text = (SQL / f"search.{vendor}.sql").read_text("utf-8")
    text = text.replace("{function}", _function())
    text = re.sub(r"\{of (.+?)\}", lambda found: words.replace("{}", found[1]), text)
    return text.split("--;\n")


def _function() -> str:
    """`query.fold` for PostgreSQL, in which most texts are ASCII and have no formula."""
    formulas = "".join(
        f"words := regexp_replace(words, '{pattern}', '{to}', 'g');\n"
        for pattern, to in folding.FORMULAS
    )
    letters = folding.LETTERS | folding.GREEK
    single = {old: new for old, new in letters.items() if len(new) == 1}
    longer = "".join(
        f"words := replace(words, '{old}', '{new}');\n"
        for old, new in letters.items()
        if len(new) > 1
    )
    olds, news = "".join(single), "".join(single.values()).replace("'", "''")
    return f"""
        CREATE OR REPLACE FUNCTION papers_words(words text) RETURNS text
        LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
        BEGIN
            words := lower(words);
            IF position('$' in words) > 0 THEN {formulas} END IF;
            IF octet_length(words) > length(words) THEN
                words := lower(regexp_replace(normalize(words, NFKD), '{folding.MARKS}', '', 'g'));
                words := translate(words, '{olds}', '{news}');
                {longer}
                words := regexp_replace(
                    normalize(words, NFC), '([{folding.UNSPACED}])', ' \\1 ', 'g'
                );
            END IF;
            RETURN replace(replace(words, 'c++', 'cplusplus'), 'c#', 'csharp');
        END
        $function$
    """


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('papers', '0001_initial'),
        ('papers', '0002_search'),
        ('papers', '0003_search_spellings'),
        ('papers', '0004_intake_evidence'),
        ('papers', '0005_search_punctuation'),
        ('papers', '0006_search_by_day'),
        ('papers', '0007_search_accents'),
        ('papers', '0008_search_in_the_row'),
        ('papers', '0009_unicode'),
        ('papers', '0010_search_folding'),
        ('papers', '0011_code_offered'),
        ('papers', '0012_fenced_lease'),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ArxivSlot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lease', models.CharField(blank=True, max_length=36)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('free_at', models.DateTimeField()),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Paper',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('arxiv_id', models.CharField(max_length=32, unique=True)),
                ('version', models.PositiveSmallIntegerField(default=1)),
                ('title', models.TextField()),
                ('abstract', models.TextField()),
                ('authors', models.JSONField(default=list)),
                ('primary_category', models.CharField(db_index=True, max_length=32)),
                ('categories', models.JSONField(default=list)),
                ('title_html', models.TextField()),
                ('abstract_html', models.TextField()),
                ('submitted_at', models.DateTimeField(blank=True, null=True)),
                ('updated_at', models.DateTimeField(blank=True, null=True)),
                ('comment', models.TextField(blank=True)),
                ('doi', models.CharField(blank=True, max_length=255)),
                ('journal_ref', models.TextField(blank=True)),
                ('license', models.CharField(blank=True, max_length=255)),
                ('code_offered', models.CharField(blank=True, max_length=255)),
                ('announced_on', models.DateField(blank=True, db_index=True, null=True)),
                ('enriched_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('enrich_tries', models.PositiveSmallIntegerField(default=0)),
                ('is_sample', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='Listing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('category', models.CharField(max_length=32)),
                ('date', models.DateField(db_index=True)),
                ('state', models.CharField(choices=[('complete', 'complete'), ('empty', 'empty'), ('stale', 'stale'), ('failed', 'failed')], max_length=8)),
                ('source', models.CharField(choices=[('rss', 'RSS'), ('atom', 'Atom'), ('api', 'API'), ('sample', 'sample')], max_length=6)),
                ('reason', models.TextField(blank=True)),
                ('counts', models.JSONField(default=dict)),
                ('problems', models.JSONField(default=list)),
                ('failures', models.JSONField(default=list)),
                ('feed_was_empty', models.BooleanField(default=False)),
                ('api_empty_on', models.JSONField(default=list)),
                ('etag', models.CharField(blank=True, max_length=255)),
                ('last_modified', models.CharField(blank=True, max_length=64)),
                ('polls', models.PositiveIntegerField(default=0)),
                ('polled_at', models.DateTimeField()),
                ('changed_at', models.DateTimeField()),
            ],
            options={
                'ordering': ('-date', 'category'),
                'constraints': [models.UniqueConstraint(fields=('category', 'date'), name='one_listing_a_day')],
            },
        ),
        migrations.CreateModel(
            name='Announcement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(choices=[('new', 'new'), ('cross', 'cross-list'), ('replace', 'replacement'), ('replace-cross', 'replaced cross-list')], max_length=13)),
                ('version', models.PositiveSmallIntegerField()),
                ('listing', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='announcements', to='papers.listing')),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='announcements', to='papers.paper')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('listing', 'paper'), name='announced_once_a_listing')],
            },
        ),
        migrations.CreateModel(
            name='PaperVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField()),
                ('title', models.TextField()),
                ('abstract', models.TextField()),
                ('announced_on', models.DateField(blank=True, null=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='papers.paper')),
            ],
            options={
                'ordering': ('number',),
                'constraints': [models.UniqueConstraint(fields=('paper', 'number'), name='one_row_a_version')],
            },
        ),
        migrations.RunPython(create, drop),
    ]
