"""`manage.py sign_in_link [--user NAME]`: a link that signs a reader in, once."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.readers import links


class Command(BaseCommand):
    help = "Print a link that signs a reader in once, within 24 hours."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", metavar="NAME", help="created if new (administrator)")
        parser.add_argument(
            "--site", default=links.site_address(), help="address of the site (%(default)s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["user"]
        try:
            reader = links.administrator() if name is None else links.reader_named(name)
        except ValidationError as error:
            raise CommandError(f"--user {name!r}: {' '.join(error.messages)}") from error
        if not reader.is_active:
            raise CommandError(f"{reader} may not sign in: the account is switched off.")
        self.stdout.write(links.address(links.make_link(reader), options["site"]))
