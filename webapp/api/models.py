"""Tokens that let a program act for a reader."""

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone


class Token(models.Model):
    """A reader's token for programs, of which only the hash is stored."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE)
    name = models.CharField(max_length=64)
    token_hash = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)  # of tokens.SCOPES
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)  # null: never
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.name

    @property
    def has_expired(self) -> bool:
        """True if the token has expired."""
        return self.expires_at is not None and self.expires_at <= timezone.now()
