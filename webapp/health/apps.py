from django.apps import AppConfig


class HealthConfig(AppConfig):
    """Whether the house stands: heartbeats, health checks and metrics."""

    name = "webapp.health"
