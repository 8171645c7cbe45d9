"""`manage.py train_links`: train what links papers to methods, from labels and decisions."""

import random
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from methods import registry
from methods.spec import Method
from webapp.catalog import labels, phrases
from webapp.catalog.labels import Label, Text
from webapp.learning import training
from webapp.learning.training import LabelledPaper
from webapp.ui.json_lines import read_lines

BACKGROUND = 1500  # papers without a sign of a method that count as negative
QUIET = 3.0  # what the phrases may say of such a paper


class Command(BaseCommand):
    help = (
        "Train the linear models that link papers to methods. Needs scikit-learn. Papers whose "
        "identifier ends in 3 to 9 are held out and never read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--papers", required=True, help="JSON lines: id, title, abstract")
        parser.add_argument("--labels", default=labels.LABELS)
        parser.add_argument("--decisions", action="store_true", help="add operators' decisions")

    def handle(self, *args: Any, **options: Any) -> None:
        lines = read_lines(options["papers"], Text)
        papers = {paper.id: paper for paper in lines if labels.is_trained_on(paper.id)}
        rows = [row for row in read_lines(options["labels"], Label) if row.id in papers]
        if options["decisions"]:
            decided, texts = labels.decisions()
            papers |= texts
            rows += decided
        positive = [papers[row.id] for row in rows if row.about]
        training.write_vocabulary(
            training.build_vocabulary((p.pair for p in papers.values()), (p.pair for p in positive))
        )
        labelled: dict[str, dict[str, bool]] = {}
        for method in registry.all_methods():
            mine = {row.id: row.about for row in rows if row.method == method.slug}
            if sum(mine.values()) < training.FOLDS:
                self.stdout.write(f"{method.slug}: too few labelled papers about it, skipped.")
            else:
                labelled[method.slug] = mine
        trained, scores = _train(labelled, papers)
        about = {
            (key, slug)
            for slug, mine in labelled.items()
            for key, score in zip(mine, scores[slug], strict=True)
            if score >= registry.get(slug).family.threshold
        }
        training.write_models(trained)
        for line in labels.agreement((row for row in rows if row.method in trained), about):
            self.stdout.write(line)


def _train(
    labelled: dict[str, dict[str, bool]], papers: dict[str, Text]
) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    examples, background = {}, {}
    for slug, mine in labelled.items():
        method = registry.get(slug)
        examples[slug] = [_example(method, papers[key], label) for key, label in mine.items()]
        background[slug] = _background(method, papers, mine)
    return training.fit(examples, background)


def _example(method: Method, paper: Text, about: bool) -> LabelledPaper:
    places = phrases.summary(phrases.find(method.family, *paper.pair))
    return LabelledPaper(*paper.pair, places, about)


def _background(
    method: Method, papers: dict[str, Text], labelled: dict[str, bool]
) -> list[tuple[str, str]]:
    """Some papers without a label, less those that say the method's words."""
    keys = sorted(papers.keys() - labelled.keys())
    chosen = random.Random(1).sample(keys, min(BACKGROUND, len(keys)))
    return [
        papers[key].pair
        for key in chosen
        if sum(_example(method, papers[key], False).phrases[:3]) < QUIET
    ]
