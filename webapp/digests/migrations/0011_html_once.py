from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("digests", "0010_marks")]
    operations = [
        # So that it can be taken back, with empty copies.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("digestentry", name, models.TextField(default=""))
                for name in ("title_html", "abstract_html")
            ]
        ),
        migrations.RemoveField("digestentry", "title_html"),
        migrations.RemoveField("digestentry", "abstract_html"),
    ]
