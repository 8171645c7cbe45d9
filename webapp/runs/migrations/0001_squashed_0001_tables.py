"""The tables of version 0.1.0."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('runs', '0001_initial'),
        ('runs', '0002_standing_measurement'),
        ('runs', '0003_periodic_task'),
        ('runs', '0004_indexes_and_history'),
        ('runs', '0005_run_log'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Environment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('hardware', models.CharField(max_length=300)),
                ('data', models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name='PeriodicTask',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=32, unique=True)),
                ('done_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64, unique=True)),
                ('key_version', models.PositiveIntegerField(default=1)),
                ('enabled', models.BooleanField(default=True)),
                ('device', models.CharField(blank=True, choices=[('cpu', 'CPU'), ('gpu', 'GPU')], max_length=8)),
                ('device_name', models.CharField(blank=True, max_length=200)),
                ('memory_mib', models.PositiveIntegerField(default=0)),
                ('versions', models.JSONField(default=dict)),
                ('note', models.CharField(blank=True, max_length=300)),
                ('boot', models.CharField(blank=True, max_length=64)),
                ('beat', models.BigIntegerField(default=0)),
                ('retired_boots', models.JSONField(default=list)),
                ('last_seen', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='MethodAccess',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('method', models.CharField(max_length=64, unique=True)),
                ('groups', models.ManyToManyField(blank=True, to='auth.group')),
            ],
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('idempotency_key', models.CharField(blank=True, max_length=64, null=True)),
                ('imported', models.BooleanField(default=False)),
                ('public', models.BooleanField(default=True)),
                ('method', models.CharField(max_length=64)),
                ('benchmark', models.CharField(max_length=64)),
                ('version', models.PositiveIntegerField(default=1)),
                ('preset', models.CharField(blank=True, max_length=32)),
                ('params', models.JSONField(default=dict)),
                ('seed', models.BigIntegerField(default=0)),
                ('device', models.CharField(choices=[('cpu', 'CPU'), ('gpu', 'GPU')], max_length=8)),
                ('limit_seconds', models.PositiveIntegerField()),
                ('limit_mib', models.PositiveIntegerField(default=0)),
                ('state', models.CharField(choices=[('queued', 'queued'), ('dispatched', 'sent to a worker'), ('running', 'running'), ('cancelling', 'being cancelled'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('timed_out', 'timed out'), ('cancelled', 'cancelled')], default='queued', max_length=16)),
                ('attempt', models.PositiveSmallIntegerField(default=0)),
                ('token', models.CharField(blank=True, max_length=64)),
                ('failure', models.CharField(blank=True, choices=[('worker_lost', 'the worker was lost'), ('killed', 'it was ended from outside'), ('input', 'the worker refused the parameters'), ('check', 'a correctness check missed its bound'), ('memory', 'it ran out of memory'), ('error', 'the benchmark failed')], max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('queued_at', models.DateTimeField()),
                ('dispatched_at', models.DateTimeField(blank=True, null=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('start_by', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('finish_by', models.DateTimeField(blank=True, null=True)),
                ('cancelling_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('progress', models.JSONField(default=dict)),
                ('progress_seq', models.BigIntegerField(default=-1)),
                ('log_bytes', models.PositiveIntegerField(default=0)),
                ('result', models.JSONField(blank=True, null=True)),
                ('charged_on', models.DateField(blank=True, null=True)),
                ('charged_seconds', models.PositiveIntegerField(default=0)),
                ('environment', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, to='runs.environment')),
                ('reader', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('worker', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='runs.worker')),
            ],
            options={
                'ordering': ('-queued_at',),
            },
        ),
        migrations.CreateModel(
            name='RunLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('compressed', models.BinaryField()),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='log', to='runs.run')),
            ],
        ),
        migrations.CreateModel(
            name='Series',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=128)),
                ('data', models.JSONField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='series', to='runs.run')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='StandingMeasurement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('method', models.CharField(max_length=64)),
                ('benchmark', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=128)),
                ('hardware', models.CharField(max_length=300)),
                ('rank', models.PositiveSmallIntegerField(choices=[(0, 'a preset as it is'), (1, 'settings of its own'), (2, 'a run that only shows that it works')])),
                ('version', models.PositiveIntegerField()),
                ('measured_at', models.DateTimeField()),
                ('headline', models.BooleanField(default=False)),
                ('series', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='standing', to='runs.series')),
            ],
            options={
                'ordering': ('benchmark', 'name', 'hardware', 'version'),
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.CharField(max_length=64)),
                ('seq', models.BigIntegerField()),
                ('kind', models.CharField(max_length=16)),
                ('body', models.JSONField(default=dict)),
                ('recorded_at', models.DateTimeField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='runs.run')),
            ],
            options={
                'ordering': ('id',),
                'constraints': [models.UniqueConstraint(fields=('run', 'token', 'seq'), name='one_row_an_event')],
            },
        ),
        migrations.CreateModel(
            name='Check',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('label', models.CharField(blank=True, max_length=200)),
                ('passed', models.BooleanField()),
                ('data', models.JSONField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='runs.run')),
            ],
            options={
                'ordering': ('id',),
                'constraints': [models.UniqueConstraint(fields=('run', 'name', 'label'), name='one_check_a_label')],
            },
        ),
        migrations.CreateModel(
            name='Artefact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=128)),
                ('media_type', models.CharField(max_length=100)),
                ('sha256', models.CharField(max_length=64)),
                ('content', models.BinaryField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artefacts', to='runs.run')),
            ],
            options={
                'ordering': ('name',),
                'constraints': [models.UniqueConstraint(fields=('run', 'name'), name='one_artefact_a_name')],
            },
        ),
        migrations.AddConstraint(
            model_name='series',
            constraint=models.UniqueConstraint(fields=('run', 'name'), name='one_series_a_name'),
        ),
        migrations.AddConstraint(
            model_name='standingmeasurement',
            constraint=models.UniqueConstraint(fields=('method', 'benchmark', 'name', 'hardware', 'version'), name='one_stands'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['state', 'device', 'queued_at'], name='run_queue'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['method', 'benchmark', '-finished_at'], name='run_results'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['public', 'state', '-finished_at', 'id'], name='run_feed'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['-queued_at', 'id'], name='run_list'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['reader', 'state'], name='run_reader'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['reader', 'charged_on'], name='run_quota'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key__isnull', False)), fields=('reader', 'idempotency_key'), name='one_run_a_key'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('started_at__isnull', True), ('finished_at__isnull', True), ('finished_at__gte', models.F('started_at')), _connector='OR'), name='runs_end_after_they_start'),
        ),
    ]
