from django.apps import AppConfig


class DigestsConfig(AppConfig):
    """What a reader wants: profiles, scores, digests and feeds."""

    name = "webapp.digests"
