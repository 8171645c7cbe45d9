"""One-time links by which a reader signs in, and the language a reader chose."""

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models


class SignInLink(models.Model):
    """A link that signs one reader in, once. Only the hash of its token is kept."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE)
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)


class Preference(models.Model):
    """The language of a reader's pages and mails: last chosen, else that of the first sign-in."""

    reader = models.OneToOneField(User, on_delete=models.CASCADE)
    language = models.CharField(max_length=16)

    @staticmethod
    def preferred_language(reader: User) -> str:
        """The language to write to `reader` in."""
        preference = Preference.objects.filter(reader=reader).first()
        return preference.language if preference else settings.LANGUAGE_CODE
