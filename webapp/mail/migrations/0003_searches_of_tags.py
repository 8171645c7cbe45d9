"""A search by mail for `tag:` goes on as one for `list:`, since each tag became a list."""

import re

from django.db import migrations


def search_lists(apps, schema_editor):
    deliveries = apps.get_model("mail", "Delivery").objects
    for delivery in deliveries.filter(q__icontains="tag:"):
        q = re.sub(r"(^|(?<=[\s(-]))tag:", "list:", delivery.q, flags=re.I)
        if deliveries.filter(reader=delivery.reader, profile=None, q=q).exists():
            delivery.delete()
        elif len(q) <= 400:
            deliveries.filter(pk=delivery.pk).update(q=q)


class Migration(migrations.Migration):
    dependencies = [("mail", "0002_feed_or_search")]

    operations = [migrations.RunPython(search_lists, migrations.RunPython.noop)]
