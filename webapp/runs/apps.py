from django.apps import AppConfig


class RunsConfig(AppConfig):
    """What we measured: runs, their events and results, and the workers that measure."""

    name = "webapp.runs"
