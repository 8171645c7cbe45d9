"""Readers' tokens, and the interface that takes them."""

from __future__ import annotations

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """The programming interface."""

    name = "webapp.api"
    default_auto_field = "django.db.models.BigAutoField"
