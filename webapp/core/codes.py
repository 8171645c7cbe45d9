"""Form fields for what is copied from elsewhere: names and keys that a machine reads."""

from typing import Any

from django import forms

from webapp.core.addresses import plain_code


class CodeField(forms.RegexField):
    """A code of a fixed form."""

    def to_python(self, value: Any) -> str:
        """Return the code without what a clipboard puts around it."""
        return plain_code(str(super().to_python(value) or ""))


class NameField(forms.CharField):
    """A name that a machine reads: a model's or a sender's."""

    def to_python(self, value: Any) -> str:
        """Return the name without what a clipboard puts around it."""
        return plain_code(str(super().to_python(value) or ""))
