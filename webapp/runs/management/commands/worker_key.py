"""`manage.py worker_key NAME`: let a machine measure for this site."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.runs import keys


class Command(BaseCommand):
    help = "Print a bench worker's key, for ASSAY_WORKER_NAME and ASSAY_WORKER_KEY on its machine."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="lower-case letters, digits, - and _")
        parser.add_argument("--rotate", action="store_true", help="replace the key by a new one")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(keys.issue(options["name"], rotate=options["rotate"]))
        except ValueError as error:
            raise CommandError(str(error)) from error
