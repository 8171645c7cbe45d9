"""The tables of version 0.1.0."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('catalog', '0001_initial'),
        ('catalog', '0002_linking_state'),
        ('catalog', '0002_relations'),
        ('catalog', '0003_answers'),
        ('catalog', '0003_linkingstate_relinking_below'),
        ('catalog', '0004_link_changes'),
    ]

    dependencies = [
        ('papers', '0001_squashed_0012_fenced_lease'),
    ]

    operations = [
        migrations.CreateModel(
            name='LinkingState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('linked_until', models.DateTimeField()),
                ('answered_until', models.DateTimeField(null=True)),
                ('fingerprint', models.CharField(max_length=64)),
                ('relinking_below', models.PositiveBigIntegerField(null=True)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name='MethodLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('method', models.CharField(db_index=True, max_length=64)),
                ('relation', models.CharField(choices=[('source', "the method's own paper"), ('about', 'about it'), ('uses', 'uses or compares it'), ('mentions', 'mentions it')], max_length=8)),
                ('score', models.FloatField(default=0.0)),
                ('evidence', models.JSONField(default=list)),
                ('confirmed', models.BooleanField(null=True)),
                ('paper', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='method_links', to='papers.paper')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('paper', 'method'), name='linked_once')],
            },
        ),
    ]
