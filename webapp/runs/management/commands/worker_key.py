"""`manage.py worker_key NAME`: let a machine measure for this site."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.runs import keys


class Command(BaseCommand):
    help = "Print the key of a bench worker: its machine sets ASSAY_WORKER_NAME and _KEY to it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="small letters, digits, - and _")
        parser.add_argument("--rotate", action="store_true", help="make a new key, void the old")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(keys.issue(options["name"], rotate=options["rotate"]))
        except ValueError as error:
            raise CommandError(str(error)) from error
