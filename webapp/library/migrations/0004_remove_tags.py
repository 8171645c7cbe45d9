from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("library", "0003_tags_become_lists")]

    operations = [migrations.RemoveField(model_name="libraryentry", name="tags")]
