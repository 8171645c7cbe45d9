import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('digests', '0001_tables'),
    ]

    operations = [
        migrations.CreateModel(
            name='BestSince',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateField()),
                ('asked_at', models.DateTimeField()),
                ('heard_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('total', models.PositiveIntegerField(default=0)),
                ('scored', models.PositiveIntegerField(default=0)),
                ('matched', models.PositiveIntegerField(default=0)),
                ('reading_seconds', models.FloatField(default=0.0)),
                ('scoring_seconds', models.FloatField(default=0.0)),
                ('rows', models.JSONField(default=list)),
                ('profile', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='best_since', to='digests.profile')),
            ],
            options={
                'verbose_name_plural': 'best since',
            },
        ),
    ]
