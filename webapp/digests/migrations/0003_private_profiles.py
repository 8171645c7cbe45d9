"""Readers' profiles are private until they publish them, each with its own key for its feeds."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from webapp.digests.models import new_feed_key


def give_each_its_own_key(apps: Apps, _: BaseDatabaseSchemaEditor) -> None:
    """The column's default is one value for all rows that were there."""
    profiles = apps.get_model("digests", "Profile").objects
    for pk in profiles.values_list("pk", flat=True):
        profiles.filter(pk=pk).update(feed_key=new_feed_key())


class Migration(migrations.Migration):
    dependencies = [("digests", "0002_best_since")]

    operations = [
        migrations.AddField(
            model_name="profile",
            name="feed_key",
            field=models.CharField(default=new_feed_key, max_length=32),
        ),
        migrations.AddField(
            model_name="profile",
            name="is_published",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(give_each_its_own_key, migrations.RunPython.noop),
    ]
