"""Each tag becomes a list of the same name; a feed that learns from the tag learns from the list."""

from django.db import migrations


def _list_of(apps, reader, tag):
    """Return the reader's list of that name: not a shared one, which others would then read."""
    lists = apps.get_model("library", "ReadingList").objects.filter(reader_id=reader)
    for number in range(1, 1000):
        name = tag if number == 1 else f"{tag} {number}"
        listed, _ = lists.get_or_create(reader_id=reader, name=name)
        if not listed.share_key:
            return listed
    raise ValueError(f"No free name for the list of the tag {tag!r}")


def lists_from_tags(apps, schema_editor):
    entries = apps.get_model("library", "LibraryEntry").objects.exclude(tags=[])
    papers = {}
    for reader, paper, tags in entries.order_by("pk").values_list("reader", "paper", "tags"):
        for tag in tags:
            papers.setdefault((reader, tag), []).append(paper)
    sources = {}
    for (reader, tag), tagged in papers.items():
        listed = _list_of(apps, reader, tag)
        listed.papers.add(*tagged)
        sources[reader, f"tag:{tag}"] = f"list:{listed.pk}"
    profiles = apps.get_model("digests", "Profile").objects
    for profile in profiles.filter(learn_from__startswith="tag:"):
        # Of a tag that no paper has, nothing was learned: neither is it from an empty list.
        source = sources.get((profile.owner_id, profile.learn_from)) or (
            f"list:{_list_of(apps, profile.owner_id, profile.learn_from[4:]).pk}"
        )
        profiles.filter(pk=profile.pk).update(learn_from=source)
    # The models are learned again, from the lists.
    apps.get_model("digests", "LearnedModel").objects.filter(source__startswith="tag:").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("library", "0002_list_address"),
        ("digests", "0018_plain_choices"),
    ]

    operations = [migrations.RunPython(lists_from_tags, migrations.RunPython.noop)]
