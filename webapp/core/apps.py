from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Plumbing that the apps share."""

    name = "webapp.core"
    label = "ui"  # its tables were made under this label; no migration renames them
