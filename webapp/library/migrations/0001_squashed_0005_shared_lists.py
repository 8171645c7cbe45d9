"""The tables of version 0.1.0."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('library', '0001_initial'),
        ('library', '0002_star'),
        ('library', '0003_zotero_reading'),
        ('library', '0004_zotero_identifiers'),
        ('library', '0005_shared_lists'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ZoteroReading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('collections', models.JSONField(default=list)),
                ('include', models.JSONField(default=list)),
                ('exclude', models.JSONField(default=list)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.TextField(blank=True)),
                ('reader', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='zotero_reading', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='LibraryEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('not_for_me', models.BooleanField(default=False)),
                ('note', models.TextField(blank=True)),
                ('tags', models.JSONField(default=list)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='library_entries', to='papers.paper')),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='library', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'library entries',
                'ordering': ('-changed_at', '-pk'),
                'constraints': [models.UniqueConstraint(fields=('reader', 'paper'), name='one_entry_a_reader')],
            },
        ),
        migrations.CreateModel(
            name='LikedText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.TextField()),
                ('abstract', models.TextField(blank=True)),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='liked_texts', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('reader', 'title'), name='liked_once_a_reader')],
            },
        ),
        migrations.CreateModel(
            name='ReadingList',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('share_key', models.CharField(blank=True, db_index=True, max_length=32)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('papers', models.ManyToManyField(related_name='reading_lists', to='papers.paper')),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reading_lists', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('name',),
                'constraints': [models.UniqueConstraint(fields=('reader', 'name'), name='a_list_once_a_reader')],
            },
        ),
        migrations.CreateModel(
            name='Star',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stars', to='papers.paper')),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stars', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'digests_star',
                'ordering': ('-created_at',),
                'constraints': [models.UniqueConstraint(fields=('reader', 'paper'), name='starred_once')],
            },
        ),
        migrations.CreateModel(
            name='ZoteroItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=8)),
                ('title', models.TextField()),
                ('abstract', models.TextField(blank=True)),
                ('arxiv_id', models.CharField(blank=True, db_index=True, max_length=32)),
                ('added_at', models.DateTimeField()),
                ('collections', models.JSONField(default=list)),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='zotero_items', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-added_at', '-pk'),
                'constraints': [models.UniqueConstraint(fields=('reader', 'key'), name='a_zotero_item_once')],
            },
        ),
    ]
