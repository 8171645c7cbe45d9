from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0002_standing_measurement'),
    ]

    operations = [
        migrations.RenameModel('Pulse', 'PeriodicTask'),
        migrations.RenameField('PeriodicTask', 'at', 'done_at'),
    ]
