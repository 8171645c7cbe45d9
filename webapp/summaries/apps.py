from django.apps import AppConfig


class SummariesConfig(AppConfig):
    """What a model says of a paper."""

    name = "webapp.summaries"
