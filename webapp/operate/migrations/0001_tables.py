from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('health', '0001_initial'),
        ('health', '0002_queues_answer'),
    ]

    dependencies = []

    operations = [
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
