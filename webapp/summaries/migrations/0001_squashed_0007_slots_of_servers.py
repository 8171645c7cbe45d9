"""The tables of version 0.1.0."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('summaries', '0001_initial'),
        ('summaries', '0002_claim_states'),
        ('summaries', '0002_what_servers_read'),
        ('summaries', '0003_grounded_whole'),
        ('summaries', '0004_answers_under_way'),
        ('summaries', '0005_profiles_of_servers'),
        ('summaries', '0006_for_a_reader'),
        ('summaries', '0007_slots_of_servers'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
    ]

    operations = [
        migrations.CreateModel(
            name='ServerCapability',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('base_url', models.CharField(max_length=300)),
                ('model', models.CharField(max_length=128)),
                ('mode', models.CharField(choices=[('json_schema', 'JSON schema'), ('json_object', 'JSON object'), ('prompt', 'prompt only')], max_length=11)),
                ('prompt_characters', models.PositiveIntegerField(blank=True, null=True)),
                ('context', models.PositiveIntegerField(blank=True, null=True)),
                ('takes_bounds', models.BooleanField(default=False)),
                ('slots', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('probed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'verbose_name_plural': 'server capabilities',
                'constraints': [models.UniqueConstraint(fields=('base_url', 'model'), name='probed_once')],
            },
        ),
        migrations.CreateModel(
            name='Summary',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lease', models.CharField(blank=True, max_length=36)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('version', models.PositiveSmallIntegerField()),
                ('prompt_version', models.CharField(max_length=32)),
                ('model', models.CharField(max_length=128)),
                ('language', models.CharField(choices=[('en', 'English'), ('zh', '中文')], max_length=2)),
                ('state', models.CharField(choices=[('waiting', 'waiting'), ('running', 'running'), ('done', 'done'), ('failed', 'failed')], default='waiting', max_length=7)),
                ('reason', models.TextField(blank=True)),
                ('attempt', models.PositiveSmallIntegerField(default=0)),
                ('written', models.PositiveIntegerField(default=0)),
                ('not_before', models.DateTimeField(blank=True, null=True)),
                ('requested_at', models.DateTimeField(auto_now_add=True)),
                ('for_reader', models.BooleanField(default=False)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('gist', models.TextField(blank=True)),
                ('gist_html', models.TextField(blank=True)),
                ('content', models.JSONField(default=dict)),
                ('html', models.TextField(blank=True)),
                ('text_source', models.CharField(blank=True, max_length=8)),
                ('text_share', models.FloatField(default=0.0)),
                ('read_share', models.FloatField(default=1.0)),
                ('unverified', models.PositiveSmallIntegerField(default=0)),
                ('withheld', models.CharField(blank=True, max_length=200)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='summaries', to='papers.paper')),
            ],
            options={
                'verbose_name_plural': 'summaries',
            },
        ),
        migrations.CreateModel(
            name='ModelCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(db_index=True)),
                ('model', models.CharField(max_length=128)),
                ('tokens_in', models.PositiveIntegerField()),
                ('tokens_out', models.PositiveIntegerField()),
                ('settled', models.BooleanField(default=False)),
                ('error', models.CharField(blank=True, max_length=200)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('summary', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='summaries.summary')),
            ],
        ),
        migrations.CreateModel(
            name='Claim',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('metric', models.CharField(max_length=200)),
                ('subject', models.CharField(blank=True, max_length=300)),
                ('value', models.CharField(max_length=80)),
                ('unit', models.CharField(blank=True, max_length=40)),
                ('direction', models.CharField(max_length=7)),
                ('baseline', models.CharField(blank=True, max_length=300)),
                ('setting', models.CharField(blank=True, max_length=300)),
                ('hardware', models.CharField(blank=True, max_length=200)),
                ('quote', models.TextField()),
                ('section', models.CharField(blank=True, max_length=200)),
                ('state', models.CharField(choices=[('number and unit', 'number and unit found in the text'), ('number only', 'number found, its unit is not written there'), ('not found', 'not found in the text')], max_length=15)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('metric_near', models.BooleanField(default=False)),
                ('direction_near', models.BooleanField(default=False)),
                ('not_given', models.JSONField(default=dict)),
                ('contradicted_by', models.TextField(blank=True)),
                ('summary', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='claims', to='summaries.summary')),
            ],
            options={
                'ordering': ('position',),
            },
        ),
        migrations.CreateModel(
            name='FullText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveSmallIntegerField()),
                ('source', models.CharField(choices=[('html', 'the full text (HTML)'), ('pdf', 'the full text (PDF)'), ('abstract', 'the abstract')], max_length=8)),
                ('sections', models.JSONField()),
                ('sha256', models.CharField(max_length=64)),
                ('share', models.FloatField(default=1.0)),
                ('reason', models.TextField(blank=True)),
                ('fetched_at', models.DateTimeField()),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='full_texts', to='papers.paper')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('paper', 'version'), name='one_text_a_version')],
            },
        ),
        migrations.AddIndex(
            model_name='summary',
            index=models.Index(fields=['state', 'requested_at'], name='summaries_s_state_3074ff_idx'),
        ),
        migrations.AddConstraint(
            model_name='summary',
            constraint=models.UniqueConstraint(fields=('paper', 'version', 'prompt_version', 'model', 'language'), name='summarised_once'),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.UniqueConstraint(fields=('summary', 'position'), name='a_place_once_a_summary'),
        ),
    ]
