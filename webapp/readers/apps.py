from django.apps import AppConfig


class ReadersConfig(AppConfig):
    """Who reads: one-time sign-in links."""

    name = "webapp.readers"
