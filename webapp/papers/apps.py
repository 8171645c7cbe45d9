from django.apps import AppConfig


class PapersConfig(AppConfig):
    """What arXiv says: papers, their versions, and a provable intake."""

    name = "webapp.papers"
