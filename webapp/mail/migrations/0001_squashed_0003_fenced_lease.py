"""The tables of version 0.1.0."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('mail', '0001_initial'),
        ('mail', '0002_lease'),
        ('mail', '0002_one_delivery_a_search'),
        ('mail', '0003_fenced_lease'),
    ]

    dependencies = [
        ('digests', '0001_squashed_0013_packed_examples'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lease', models.CharField(blank=True, max_length=36)),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('q', models.CharField(blank=True, max_length=400)),
                ('frequency', models.CharField(choices=[('daily', 'every day'), ('weekly', 'once a week')], max_length=6)),
                ('sent_until', models.DateField()),
                ('looked_on', models.DateField()),
                ('profile', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='digests.profile')),
                ('reader', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(fields=('reader', 'profile', 'q'), name='one_delivery_each'), models.UniqueConstraint(condition=models.Q(('profile', None)), fields=('reader', 'q'), name='one_delivery_a_search')],
            },
        ),
    ]
