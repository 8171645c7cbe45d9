"""The tables of version 0.1.0."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('health', '0001_initial'),
        ('health', '0002_failure'),
        ('health', '0002_queues_answer'),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Failure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.CharField(max_length=128, unique=True)),
                ('error', models.CharField(max_length=300)),
                ('periodic', models.BooleanField()),
                ('since', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('times', models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('beat', 'beat'), ('queue', 'queue')], max_length=6)),
                ('name', models.CharField(max_length=128)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'name'), name='one_heartbeat_a_process')],
            },
        ),
    ]
