from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """Methods, and the papers that concern them."""

    name = "webapp.catalog"
