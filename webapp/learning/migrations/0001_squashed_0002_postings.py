"""The tables of version 0.1.0."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('learning', '0001_vectors'),
        ('learning', '0002_postings'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
    ]

    operations = [
        migrations.CreateModel(
            name='PaperVector',
            fields=[
                ('paper', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='vector', serialize=False, to='papers.paper')),
                ('encoder', models.CharField(max_length=200)),
                ('version', models.PositiveSmallIntegerField()),
                ('values', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='PostingsBlock',
            fields=[
                ('block', models.PositiveIntegerField(primary_key=True, serialize=False)),
                ('until', models.PositiveIntegerField()),
                ('vocabulary', models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='TermPostings',
            fields=[
                ('pk', models.CompositePrimaryKey('term', 'block', blank=True, editable=False, primary_key=True, serialize=False)),
                ('term', models.CharField(max_length=60)),
                ('block', models.PositiveIntegerField()),
                ('values', models.BinaryField()),
            ],
        ),
    ]
