"""Mail by the server that is connected at the moment."""

from collections.abc import Sequence
from typing import Any

from django.core.mail import EmailMessage
from django.core.mail.backends import smtp

from webapp.core import connections
from webapp.env import Settings


class EmailBackend(smtp.EmailBackend):
    """Django's, by the server that is connected when it is made; all mail has one sender."""

    def __init__(self, connected: Settings | None = None, **options: Any) -> None:
        self.connected = connected or connections.current()
        super().__init__(**options | connections.smtp(self.connected))

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Send messages and return how many the server took."""
        for message in email_messages:
            message.from_email = self.connected.mail_from
        return super().send_messages(email_messages)
