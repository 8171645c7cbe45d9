from django.apps import AppConfig


class OperateConfig(AppConfig):
    """What an operator connects, watches and repairs."""

    name = "webapp.operate"
    label = "health"  # as in the names of its tables, which older releases made
