"""The tables of version 0.1.0."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('ui', '0001_revision'),
        ('ui', '0002_pending'),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Pending',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'slot', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', models.CharField(max_length=100)),
                ('slot', models.PositiveSmallIntegerField()),
                ('token', models.BigIntegerField()),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'slot', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', models.CharField(max_length=100)),
                ('slot', models.PositiveSmallIntegerField()),
                ('token', models.BigIntegerField()),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Settled',
            fields=[
                ('work', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('revisions', models.CharField(max_length=64)),
            ],
        ),
    ]
