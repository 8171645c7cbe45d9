from django.apps import AppConfig


class UiConfig(AppConfig):
    """What pages share: mathematics, sanitising, template tags, static assets."""

    name = "webapp.ui"
