"""`manage.py doctor`: what is wrong with this installation, and what to do."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from webapp.operate.doctor import examine

MARKS = {"good": "  ok      ", "note": "  note    ", "problem": "  PROBLEM "}


class Command(BaseCommand):
    help = (
        "Check this installation and say what to do. Nothing is changed. "
        "Exits with 1 if there is a problem."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        findings = list(examine())
        for finding in findings:
            self.stdout.write(f"{MARKS[finding.level]}{finding.what}")
            if finding.todo:
                self.stdout.write(f"          → {finding.todo}")
        if any(finding.level == "problem" for finding in findings):
            sys.exit(1)
