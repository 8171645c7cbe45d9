"""The tables of version 0.1.0."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('claims', '0001_tables'),
        ('claims', '0002_numbers_of_abstracts'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
    ]

    operations = [
        migrations.CreateModel(
            name='Comparator',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('written', models.TextField(help_text='One way to write it a line, in small letters.')),
            ],
        ),
        migrations.CreateModel(
            name='AbstractReading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveSmallIntegerField()),
                ('rules', models.CharField(max_length=16)),
                ('read_at', models.DateTimeField(auto_now=True)),
                ('paper', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='abstract_reading', to='papers.paper')),
            ],
        ),
        migrations.CreateModel(
            name='TableReading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveSmallIntegerField()),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('read_at', models.DateTimeField(auto_now=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='table_readings', to='papers.paper')),
            ],
        ),
        migrations.CreateModel(
            name='PaperTable',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('number', models.CharField(blank=True, max_length=40)),
                ('caption', models.TextField(blank=True)),
                ('anchor', models.CharField(blank=True, max_length=120)),
                ('cells', models.JSONField()),
                ('reading', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tables', to='claims.tablereading')),
            ],
            options={
                'ordering': ('position',),
            },
        ),
        migrations.CreateModel(
            name='AbstractNumber',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('metric', models.CharField(max_length=80)),
                ('relation', models.CharField(max_length=8)),
                ('benchmark', models.CharField(blank=True, max_length=80)),
                ('against', models.CharField(blank=True, max_length=80)),
                ('stage', models.CharField(blank=True, max_length=20)),
                ('name', models.CharField(max_length=200)),
                ('direction', models.CharField(blank=True, max_length=6)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('baseline', models.CharField(blank=True, max_length=300)),
                ('setting', models.CharField(blank=True, max_length=300)),
                ('text', models.CharField(max_length=80)),
                ('value', models.DecimalField(decimal_places=12, max_digits=30, null=True)),
                ('quote', models.TextField()),
                ('start', models.PositiveIntegerField()),
                ('end', models.PositiveIntegerField()),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='abstract_numbers', to='papers.paper')),
            ],
            options={
                'indexes': [models.Index(fields=['metric', 'relation', 'paper'], name='claims_abst_metric_c38a70_idx')],
            },
        ),
        migrations.CreateModel(
            name='ReportedValue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=80)),
                ('metric', models.CharField(max_length=80)),
                ('better', models.CharField(max_length=6)),
                ('subject', models.CharField(max_length=300)),
                ('setting', models.CharField(blank=True, max_length=300)),
                ('value', models.DecimalField(decimal_places=12, max_digits=30)),
                ('text', models.CharField(max_length=60)),
                ('unit', models.CharField(blank=True, max_length=8)),
                ('row', models.PositiveSmallIntegerField()),
                ('column', models.PositiveSmallIntegerField()),
                ('is_own', models.BooleanField(default=False)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reported_values', to='papers.paper')),
                ('table', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reported', to='claims.papertable')),
            ],
            options={
                'indexes': [models.Index(fields=['benchmark', 'metric', 'paper'], name='claims_repo_benchma_ce2ade_idx')],
            },
        ),
        migrations.AddConstraint(
            model_name='tablereading',
            constraint=models.UniqueConstraint(fields=('paper', 'version'), name='tables_read_once'),
        ),
        migrations.AddConstraint(
            model_name='papertable',
            constraint=models.UniqueConstraint(fields=('reading', 'position'), name='a_place_once_a_reading'),
        ),
    ]
