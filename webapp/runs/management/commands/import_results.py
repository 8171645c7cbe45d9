"""`manage.py import_results [PATH…]`: publish results that were measured elsewhere."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.runs.results import BadResultError, import_file


class Command(BaseCommand):
    help = "Publish result files written by `python -m methods run … --json FILE`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "paths",
            nargs="*",
            type=Path,
            metavar="PATH",
            help="files or folders (default: benchmarks/results)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        paths = options["paths"] or [settings.BASE_DIR / "benchmarks" / "results"]
        files = [file for path in paths for file in _files(path)]
        new = bad = 0
        for file in files:
            try:
                new += import_file(file)
            except BadResultError as error:
                bad += 1
                self.stderr.write(f"{file}: {error}. It was not imported.")
        unchanged = len(files) - new - bad
        self.stdout.write(
            f"Results published: {new} new, {unchanged} already known, {bad} unreadable."
        )
        if bad:
            raise CommandError(f"{bad} of {len(files)} files contain no result to publish.")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in {".json", ".jsonl"})
