from importlib import import_module

from django.conf import settings
from django.db import migrations

_REPLACED = [
    import_module(f'webapp.readers.migrations.{name}').Migration
    for name in ('0001_initial', '0002_preference')
]


class Migration(migrations.Migration):
    """Both tables at once. Sites exist that have applied this one, and sites that have applied only
    the first of the two that it replaces: all three stay.
    """

    initial = True

    replaces = [
        ('readers', '0001_initial'),
        ('readers', '0002_preference'),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [operation for one in _REPLACED for operation in one.operations]
