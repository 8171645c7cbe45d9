"""`manage.py link_papers`: link every paper to the methods it concerns."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webapp.catalog import chips, linking
from webapp.papers.models import Paper


class Command(BaseCommand):
    help = "Link every paper to the methods it concerns, and put their chips on the cards."

    def handle(self, *args: Any, **options: Any) -> None:
        changed = linking.link(Paper.objects.iterator(linking.BATCH))
        self.stdout.write(f"{changed} links changed; {chips.refresh()} papers' chips with them.")
