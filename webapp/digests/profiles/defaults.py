"""The keywords of a new site and the model of its list, for methods that make large models cheaper.

`defaults.json` has for each keyword the number of papers with it, of 1,000 recent papers in cs.AI,
cs.CL, cs.CV and cs.LG (of June 2026, or of autumn 2025). A site counts its own papers
once it has enough of them. Words with a sign tell the field: of two papers on quantization the one
on language models is wanted more often, the one on patients less.

`default_model.json` is learned from forty papers of the field that were chosen by hand
(`python -m benchmarks.default_model` makes it).
"""

import json
from functools import cache
from pathlib import Path

from webapp.digests.scoring.rules import Keyword
from webapp.learning.linear import Linear
from webapp.learning.preferences import Learned

_READ = json.loads(Path(__file__).with_suffix(".json").read_text())
MODEL = Path(__file__).with_name("default_model.json")
KEYWORDS: dict[str, float] = _READ["keywords"]  # by frequency
EXCLUDE: tuple[str, ...] = tuple(_READ["exclude"])
MIN_SCORE: float = _READ["min_score"]
CHOSEN: tuple[str, ...] = tuple(_READ["chosen"])  # identifiers
# Chosen on five days of June 2025 that were read by eye: the least closeness of a listed paper, and
# what a keyword's point adds to it, by the model's own margin.
LEAST, A_POINT = 0.41, 0.015


def default_keywords() -> list[Keyword]:
    """Those of a new site, and the words with a sign."""
    sought = [Keyword(text, frequency=frequency) for text, frequency in KEYWORDS.items()]
    return sought + [Keyword(**keyword) for keyword in _READ["signed"]]


@cache
def default_model() -> Learned:
    """Return the model of the site's own list."""
    stored = json.loads(MODEL.read_text())
    return Learned(
        Linear(stored["intercept"], stored["weights"]),
        tuple(stored["reference"]),
        stored["margin"],
        stored["examples"],
        len(CHOSEN),
        stored["fingerprint"],
        stored["keyword_closeness"],
    )
