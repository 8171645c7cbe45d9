"""Training of the linear models with scikit-learn; `linear` applies them without it."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.learning import linear, tfidf
from webapp.learning.tfidf import DATA

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
    import numpy as np  # noqa: PLC0415
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415

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
    import numpy as np  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

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
    import numpy as np  # noqa: PLC0415
    from scipy.sparse import vstack  # type: ignore[import-untyped]  # noqa: PLC0415
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

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
