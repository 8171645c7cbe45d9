"""manage.py digest: the digest of a day, printed."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.digests.lookup import NotFoundError, day, find_digest, find_profile
from webapp.digests.queries import digest_entries
from webapp.digests.text_formats import FORMATS


class Command(BaseCommand):
    help = "Print the digest of a day."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--date", metavar="D", type=day, help="for example 2026-03-02 (default: the latest)"
        )
        parser.add_argument("--profile", metavar="P", help="slug or name (default: the site's)")
        parser.add_argument("--format", choices=FORMATS, default="text")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            digest = find_digest(find_profile(options["profile"]), options["date"])
        except NotFoundError as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(FORMATS[options["format"]](digest, digest_entries(digest)).rstrip("\n"))
