"""`manage.py corrections`: print readers' corrections, or add them to a file of test cases."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.catalog import cases


class Command(BaseCommand):
    help = (
        "Print every correction of a quote, table or link that counts, with what the rules read, "
        "as a line of JSON. With --append, add those that a file of test cases does not have; "
        "the tests then fail until the rules agree with them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--append", type=Path, help="the file of cases: tests/catalog/corrections.jsonl"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path | None = options["append"]
        lines = {
            json.dumps(case, ensure_ascii=False, sort_keys=True): case for case in cases.cases()
        }
        if path is None:
            for line in lines:
                self.stdout.write(line)
            return
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        present = text.split("\n")  # a line of JSON may hold the other ends of line of Unicode
        new = [line for line in lines if line not in present]
        with path.open("a", encoding="utf-8") as file:
            if text and not text.endswith("\n"):
                file.write("\n")
            file.writelines(f"{line}\n" for line in new)
        disagreeing = sum(bool(cases.disagreement(lines[line])) for line in new)
        self.stdout.write(f"{len(new)} cases added; the rules disagree with {disagreeing}.")
