"""`manage.py translations`: which messages of pages and mail a language lacks."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.ui import translations


class Command(BaseCommand):
    """Lists them with their places, or prepares the catalogue for a translator."""

    help = "List the messages that a catalogue does not translate."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--write",
            action="store_true",
            help="add what is missing to the catalogue, empty, and remove what is used nowhere",
        )
        parser.add_argument("--compile", action="store_true", help="only make the .mo files")

    def handle(self, *args: Any, **options: Any) -> None:
        for catalogue in translations.catalogues():
            try:
                self._handle(catalogue, **options)
            except translations.CatalogueError as error:
                raise CommandError(error) from None

    def _handle(self, catalogue: Path, **options: Any) -> None:
        if options["compile"]:
            translations.compile_catalogue(catalogue)
        else:
            language = catalogue.parent.parent.name
            missing = translations.lacking(catalogue)
            self.stdout.write(f"{language}: {len(missing)} messages have no translation")
            for message, (_, place) in sorted(missing.items(), key=lambda item: item[1][1]):
                self.stdout.write(f"  {place}: {' '.join(message.split())}")
            if options["write"]:
                self._write(catalogue)

    def _write(self, catalogue: Path) -> None:
        import polib  # noqa: PLC0415 - only for this option

        file = translations.read(catalogue)
        used = translations.used()
        unused = [entry for entry in file if entry.msgid not in used]
        for entry in unused:
            file.remove(entry)
        messages = {entry.msgid for entry in file}
        for message, (plural, _) in used.items():
            if message not in messages:
                numbers = {"msgid_plural": plural, "msgstr_plural": {0: ""}} if plural else {}
                file.append(polib.POEntry(msgid=message, **numbers))
        file.save()
        self.stdout.write(f"{catalogue}: {len(unused)} unused messages removed")
