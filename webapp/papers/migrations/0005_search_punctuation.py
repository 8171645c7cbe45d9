"""The index has changed: 0008 makes it again, once for all such changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("papers", "0001_tables")]
