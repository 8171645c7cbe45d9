from django.apps import AppConfig


class InterfaceConfig(AppConfig):
    """Pages' common parts: mathematics, sanitising, template tags."""

    name = "webapp.ui"
    label = "interface"
