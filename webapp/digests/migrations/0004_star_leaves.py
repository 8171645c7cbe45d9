from django.db import migrations


class Migration(migrations.Migration):
    """A saved paper is a mark of the library, which takes the table over as it is."""

    dependencies = [("digests", "0003_private_profiles")]
    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Star")])
    ]
