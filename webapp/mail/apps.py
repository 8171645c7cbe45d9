from django.apps import AppConfig


class MailConfig(AppConfig):
    """Digests and alerts by mail."""

    name = "webapp.mail"
