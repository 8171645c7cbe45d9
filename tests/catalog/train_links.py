"""Train what links papers to methods, from labels and, if asked, operators' decisions.

    python -m tests.catalog.train_links --papers FILE.jsonl [--decisions]

Needs scikit-learn, which the site has not: `webapp.learning.linear` applies the weights, which are
committed as its data. Papers whose identifier ends in 3 to 9 are held out and never read.
"""

import argparse
import json
import math
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()

from methods import registry
from methods.spec import Method
from tests.catalog import labels
from tests.catalog.labels import Label
from webapp.catalog import phrases
from webapp.catalog.management.commands.link_papers import PaperText
from webapp.catalog.models import MethodLink
from webapp.core.json_lines import read_lines
from webapp.learning import linear, tfidf
from webapp.learning.tfidf import DATA

LABELS = Path(__file__).parents[1] / "learning" / "readings" / "links.jsonl"
BACKGROUND = 1500  # papers without a sign of a method that count as negative
QUIET = 3.0  # what the phrases may say of such a paper
FOLDS = 8
SMALLEST = 0.02  # a weight below this share of the largest is left out
TRUST = 0.7  # factor of the phrases' weights: they were chosen with these labels in view


@dataclass(frozen=True)
class LabelledPaper:
    """A paper with the scores of its phrases, and whether it is about the method."""

    title: str
    abstract: str
    phrases: tuple[float, ...]
    about: bool


def build_vocabulary(
    papers: Iterable[tuple[str, str]], positive: Iterable[tuple[str, str]]
) -> dict[str, float]:
    """The idf of terms that are common, or that papers about a method share.

    A word must be in 15 papers; a pair in 60, or in 6 if two positive ones have it.
    """
    known = list(papers)
    frequency, shared = (
        Counter(term for paper in some for term in tfidf.terms(*paper))
        for some in (known, positive)
    )
    return {
        term: round(math.log((1 + len(known)) / (1 + count)) + 1, 3)
        for term, count in sorted(frequency.items())
        if count >= (15 if " " not in term else 6 if shared[term] >= 2 else 60)
    }


def write_vocabulary(idf: Mapping[str, float]) -> None:
    """Store a vocabulary as the site's data, and use it from now on."""
    (DATA / "vocabulary.json").write_text(json.dumps(idf, indent=0) + "\n")
    tfidf.vocabulary.cache_clear()


def fit(
    examples: Mapping[str, Sequence[LabelledPaper]],
    background: Mapping[str, Sequence[tuple[str, str]]],
) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    """The weights of each method, and the out-of-fold probabilities of its examples.

    The weights of the combination are fitted to out-of-fold predictions of the terms. `background`
    are papers without a sign of the method, which count as negative.
    """
    # scikit-learn is one of the ML requirements, which the site itself does not have.
    import numpy as np
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    terms = {slug: _terms(mine, background[slug], folds) for slug, mine in examples.items()}
    outside = np.concatenate([odds for _, odds in terms.values()])
    rows = [example for mine in examples.values() for example in mine]
    features = np.c_[
        outside, np.array([linear.phrase_features(example.phrases) for example in rows])
    ]
    about = np.array([example.about for example in rows])
    method = np.repeat(np.arange(len(examples)), [len(mine) for mine in examples.values()])
    odds = np.zeros(len(rows))
    for train, held in folds.split(features, 2 * method + about):
        weights = _weigh(features[train], about[train], method[train])[method[held]]
        odds[held] = weights[:, 0] + (weights[:, 1:] * features[held]).sum(axis=1)
    models = {
        slug: model | {"combination": [round(float(weight), 3) for weight in weights]}
        for (slug, (model, _)), weights in zip(
            terms.items(), _weigh(features, about, method), strict=True
        )
    }
    scores = np.array([linear.probability(float(value)) for value in odds])
    return models, {slug: scores[method == n].tolist() for n, slug in enumerate(examples)}


def _weigh(features: Any, about: Any, method: Any) -> Any:
    """Weights of the combination, a row per method: its own intercept, and slopes shared by all.

    With its own slopes a method would overfit its phrases to these labels. The phrases get TRUST of
    their best weights here; a second fit sets the scale and the intercepts.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    own = np.eye(method.max() + 1)[method]
    model = LogisticRegression(C=1, max_iter=2000)
    slopes = model.fit(np.c_[features, own], about).coef_[0][: features.shape[1]].copy()
    slopes[1:] *= TRUST
    scale, *offsets = model.fit(np.c_[features @ slopes, own], about).coef_[0]
    return np.array([[model.intercept_[0] + offset, *(scale * slopes)] for offset in offsets])


def _terms(
    examples: Sequence[LabelledPaper], background: Sequence[tuple[str, str]], folds: Any
) -> tuple[dict[str, Any], Any]:
    """The linear model over the terms, and its out-of-fold log-odds of the examples."""
    import numpy as np
    from scipy.sparse import vstack  # type: ignore[import-untyped]
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    columns = DictVectorizer(sort=False).fit([tfidf.vocabulary()])
    papers = [*((example.title, example.abstract) for example in examples), *background]
    whole = columns.transform([tfidf.vector(*paper) for paper in papers])
    x, other = whole[: len(examples)], whole[len(examples) :]

    def fitted(x: Any, y: Any) -> Any:
        model = LogisticRegression(C=20, class_weight="balanced", solver="liblinear")
        return model.fit(vstack([x, other]), np.r_[y, np.zeros(other.shape[0], bool)])

    y = np.array([example.about for example in examples])
    outside = np.zeros(len(examples))
    for train, held in folds.split(x, y):
        outside[held] = fitted(x[train], y[train]).decision_function(x[held])
    final = fitted(x, y)
    weights = final.coef_[0]
    kept = {
        term: round(float(weight), 3)
        for term, weight in zip(columns.feature_names_, weights, strict=True)
        if abs(weight) > SMALLEST * abs(weights).max()
    }
    return {"intercept": round(float(final.intercept_[0]), 3), "weights": kept}, outside


def write_models(models: Mapping[str, Mapping[str, Any]]) -> None:
    """Store the trained models as the site's data."""
    (DATA / "weights.json").write_text(json.dumps(models, indent=0) + "\n")


def main(papers: Path, given: Path = LABELS, *, decisions: bool = False) -> Iterator[str]:
    """Train and store vocabulary and weights; yields how well they agree with the labels."""
    lines = read_lines(str(papers), PaperText)
    texts = {paper.id: paper for paper in lines if labels.is_trained_on(paper.id)}
    rows = [row for row in read_lines(str(given), Label) if row.id in texts]
    if decisions:
        decided, those = decided_here()
        texts |= those
        rows += decided
    positive = [texts[row.id] for row in rows if row.about]
    write_vocabulary(build_vocabulary((p.pair for p in texts.values()), (p.pair for p in positive)))
    labelled: dict[str, dict[str, bool]] = {}
    for method in registry.all_methods():
        mine = {row.id: row.about for row in rows if row.method == method.slug}
        if sum(mine.values()) < FOLDS:
            yield f"{method.slug}: too few labelled papers about it, skipped."
        else:
            labelled[method.slug] = mine
    trained, scores = _train(labelled, texts)
    about = {
        (key, slug)
        for slug, mine in labelled.items()
        for key, score in zip(mine, scores[slug], strict=True)
        if score >= registry.get(slug).family.threshold
    }
    write_models(trained)
    yield from labels.agreement((row for row in rows if row.method in trained), about)


def decided_here() -> tuple[list[Label], dict[str, PaperText]]:
    """Labels from the links that operators confirmed or rejected on this site, and the papers."""
    rows = MethodLink.objects.exclude(confirmed=None).select_related("paper")
    found, texts = [], {}
    for row in rows:
        paper, relation = row.paper, "about" if row.confirmed else "none"
        found.append(Label(id=paper.arxiv_id, method=row.method, relation=relation))
        texts[paper.arxiv_id] = PaperText(
            id=paper.arxiv_id, title=paper.title, abstract=paper.abstract
        )
    return found, texts


def _train(
    labelled: dict[str, dict[str, bool]], papers: dict[str, PaperText]
) -> tuple[dict[str, dict[str, Any]], dict[str, list[float]]]:
    examples, background = {}, {}
    for slug, mine in labelled.items():
        method = registry.get(slug)
        examples[slug] = [_example(method, papers[key], label) for key, label in mine.items()]
        background[slug] = _background(method, papers, mine)
    return fit(examples, background)


def _example(method: Method, paper: PaperText, about: bool) -> LabelledPaper:
    places = phrases.summary(phrases.find(method.family, *paper.pair))
    return LabelledPaper(*paper.pair, places, about)


def _background(
    method: Method, papers: dict[str, PaperText], labelled: dict[str, bool]
) -> list[tuple[str, str]]:
    """Some papers without a label, less those that say the method's words."""
    keys = sorted(papers.keys() - labelled.keys())
    chosen = random.Random(1).sample(keys, min(BACKGROUND, len(keys)))
    return [
        papers[key].pair
        for key in chosen
        if sum(_example(method, papers[key], False).phrases[:3]) < QUIET
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=Path, required=True)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--decisions", action="store_true")
    options = parser.parse_args()
    for line in main(options.papers, options.labels, decisions=options.decisions):
        sys.stdout.write(f"{line}\n")
