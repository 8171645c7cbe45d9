"""`manage.py link_papers`: link papers to methods; with `--input` it needs no database."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Annotated, Any

from django.core.management.base import BaseCommand
from pydantic import AfterValidator, BaseModel

from webapp.catalog import chips, evidence, linking
from webapp.core.json_lines import read_lines
from webapp.papers.models import Paper

Folded = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


class PaperText(BaseModel):
    """A paper to be linked: a line of JSON, with single spaces."""

    id: Folded
    title: Folded
    abstract: Folded

    @property
    def pair(self) -> tuple[str, str]:
        """Title and abstract."""
        return self.title, self.abstract


class Command(BaseCommand):
    help = (
        "Link every paper of the site to the methods it is about. With --input, print the links of "
        "the papers in a file as lines of JSON, without a database."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", help="file of JSON lines: id, title, abstract")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["input"]:
            changed = linking.link(Paper.objects.all())
            refreshed = chips.refresh()
            self.stdout.write(f"{changed} links changed; {refreshed} papers' chips with them.")
            return
        for paper in read_lines(options["input"], PaperText):
            links = [asdict(link) for link in evidence.links(paper.id, *paper.pair)]
            self.stdout.write(json.dumps({"id": paper.id, "links": links}))
