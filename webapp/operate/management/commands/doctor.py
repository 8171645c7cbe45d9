"""`manage.py doctor`: what is wrong with this installation, and what to do."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from webapp.database import DatabaseError, bring_up_to_date
from webapp.operate.doctor import Finding, examine

MARKS = {"good": "  ok      ", "note": "  note    ", "problem": "  PROBLEM "}


class Command(BaseCommand):
    help = "Check this installation and say what to do. Exits with 1 if there is a problem."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            bring_up_to_date()
        except DatabaseError as error:
            findings = [Finding("problem", str(error))]
        else:
            findings = list(examine())
        for finding in findings:
            self.stdout.write(f"{MARKS[finding.level]}{finding.what}")
            if finding.todo:
                self.stdout.write(f"          → {finding.todo}")
        if any(finding.level == "problem" for finding in findings):
            sys.exit(1)
