from django.apps import AppConfig


class OperateConfig(AppConfig):
    """The operator's side of a site."""

    name = "webapp.operate"
    label = "health"  # as in the names of its tables, which older releases made
