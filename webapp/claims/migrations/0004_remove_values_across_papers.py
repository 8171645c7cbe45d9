from typing import Any

from django.db import migrations


def read_again(apps: Any, schema_editor: Any) -> None:
    """Forget the tables that were read with notes as digits: they are read anew."""
    apps.get_model("claims", "TableReading").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("claims", "0003_remove_numbers_of_abstracts")]

    operations = [
        migrations.DeleteModel(name="ReportedValue"),
        migrations.RunPython(read_again, migrations.RunPython.noop),
    ]
