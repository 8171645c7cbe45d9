"""Rank the site's own list by its model, where an administrator has changed no keyword."""

from hashlib import sha256
from typing import Any

from django.db import migrations

KEYWORDS = "77ca09b7ec212bff63971ac9fd2186c2c336a87e16361c2d6cd370fa510ac79d"  # of 0.1.0
RENAMED = {
    "speculative decoding": (
        "speculative decoding | speculative sampling | speculative execution | draft model | drafter",
        5.5,
    ),
    "efficient attention | subquadratic | attention complexity": (
        "efficient attention | hierarchical attention | subquadratic | quadratic complexity",
        3.0,
    ),
}
NEW = {
    "early exit | early-exiting | dynamic batching | continuous batching": 0.5,
    r"/efficient (?:[\w-]+ ){0,3}(?:reasoning|inference|decoding|serving|training|pre-?training)/": 18.0,
}


def rank_by_model(apps: Any, _schema: Any) -> None:
    """Give the default keywords their synonyms, and the list its model."""
    for site in apps.get_model("digests", "Profile").objects.filter(is_site=True, ranking="rules"):
        names = "\n".join(sorted(keyword["keyword"] for keyword in site.keywords))
        if sha256(names.encode()).hexdigest() != KEYWORDS:
            continue
        for keyword in site.keywords:
            if renamed := RENAMED.get(keyword["keyword"]):
                keyword["keyword"], keyword["frequency"] = renamed
        site.keywords += [
            {"keyword": text, "weight": 1.0, "title_bonus": 0.5, "frequency": frequency}
            for text, frequency in NEW.items()
        ]
        site.ranking = "both"
        site.save()


class Migration(migrations.Migration):
    dependencies = [("digests", "0016_saved_margin")]

    operations = [migrations.RunPython(rank_by_model, migrations.RunPython.noop)]
