"""manage.py digest: a day, printed."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.digests.lookup import NotFoundError, find_digest, find_profile
from webapp.digests.text_formats import FORMATS


class Command(BaseCommand):
    help = "Print the digest of a day."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--date", metavar="D", help="for instance 2026-03-02 (default: the latest)"
        )
        parser.add_argument("--profile", metavar="P", help="slug or name (default: the site's)")
        parser.add_argument("--format", choices=FORMATS, default="text")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            day = date.fromisoformat(options["date"]) if options["date"] else None
        except ValueError:
            raise CommandError(
                f"--date {options['date']!r}: write a day as 2026-03-02", returncode=2
            ) from None
        try:
            digest = find_digest(find_profile(options["profile"]), day)
        except NotFoundError as error:
            raise CommandError(str(error), returncode=2) from None
        entries = list(digest.entries.select_related("paper"))
        self.stdout.write(FORMATS[options["format"]](digest, entries).rstrip("\n"))
