"""Hides secrets in log lines, including those that a message or traceback quotes."""

import logging
import re
from collections.abc import Callable, Iterable

# Text that looks like a valid secret; the first group is kept.
_SECRETS = re.compile(
    r"(/(?:sign-in|save|end|confirm|lists)/)[\w:%-]{16,}"  # an address that is good by itself
    r"|([?&]key=)[\w-]{16,}"  # of a private feed's address
    r"|(\bauthorization['\"]?\s*[:=,]\s*b?['\"]?(?:\w+\s+)?)[^\s'\",;]{4,}"  # a request's header
    r"|(\b(?:Bearer|Token)\s+)[\w.~+/=-]{8,}"
    r"|(\bBasic\s+)(?=\S*[\d=])[\w+/=]{8,}"
    r"|(://[^/\s:@]*:)[^\s/]+(?=@)"  # a password in an address, up to its last @
    r"|(://)[\w-]{16,}(?=@)",  # a token in the place of a user
    re.IGNORECASE,
)
_SHORTEST = 8  # characters; a shorter secret might occur inside ordinary words
HIDDEN = "…"


class Formatter(logging.Formatter):
    """Format a record, then hide anything like a secret and the current `secrets`."""

    def __init__(self, fmt: str, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        super().__init__(fmt)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback if there is one."""
        text = _SECRETS.sub(
            lambda m: next(g for g in m.groups() if g) + HIDDEN, super().format(record)
        )
        for secret in self._secrets():
            if len(secret) >= _SHORTEST:
                text = text.replace(secret, HIDDEN)
        return text
