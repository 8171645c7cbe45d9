from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("api", "0001_squashed_0002_token_expires_at")]
    operations = [
        migrations.RemoveField(model_name="token", name="minute"),
        migrations.RemoveField(model_name="token", name="requests"),
    ]
