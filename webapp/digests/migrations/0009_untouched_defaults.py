"""The site's profile gets the present default keywords, where nobody changed the former ones."""

import json
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from webapp.digests.profiles.defaults import EXCLUDE, MIN_SCORE, default_keywords

# Of each set of keywords with their points, words to exclude and minimum score that new sites had.
FORMER = {"89d74cc68e2d7205", "967f2fce9d8b72f2", "a6b7f3b3ce31bb4f"}


def written(profile: Any) -> str:
    """What a person may have changed, as FORMER has it; the site itself counts frequencies."""
    keywords = [
        [one["keyword"], one.get("weight", 1.0), one.get("title_bonus", 0.5)]
        for one in profile.keywords
    ]
    text = json.dumps([sorted(keywords), profile.exclude, profile.min_score])
    return sha256(text.encode()).hexdigest()[:16]


def renew(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor | None) -> None:
    """Replace a former default; its next day is ranked by the new one."""
    for profile in apps.get_model("digests", "Profile").objects.filter(is_site=True):
        if written(profile) in FORMER:
            profile.keywords = [asdict(keyword) for keyword in default_keywords()]
            profile.exclude, profile.min_score = list(EXCLUDE), MIN_SCORE
            profile.counted_on = None
            profile.save(update_fields=["keywords", "exclude", "min_score", "counted_on"])


class Migration(migrations.Migration):
    dependencies = [("digests", "0008_gist_once")]
    operations = [migrations.RunPython(renew, migrations.RunPython.noop)]
