"""The keywords of a new site: methods that make large models cheaper to train and to run.

`defaults.json` has for each keyword the number of papers with it, of 1,000 recent papers in cs.AI,
cs.CL, cs.CV and cs.LG (of June 2026, or of autumn 2025). A site counts its own papers
once it has enough of them. Words of `support` stand for the field: they bring no paper, but of two
papers on quantization the one on language models is wanted more often. The minimum score was chosen
on nine days that were read by eye.
"""

import json
from pathlib import Path

from webapp.digests.scoring.scorer import Keyword
from webapp.digests.scoring.terms import SUPPORT

_READ = json.loads(Path(__file__).with_suffix(".json").read_text())
KEYWORDS: dict[str, float] = _READ["keywords"]  # by frequency
EXCLUDE: tuple[str, ...] = tuple(_READ["exclude"])
MIN_SCORE: float = _READ["min_score"]


def default_keywords() -> list[Keyword]:
    """Those of a new site, with the words that support them."""
    sought = [Keyword(text, frequency=frequency) for text, frequency in KEYWORDS.items()]
    return sought + [Keyword(SUPPORT + text, 2.0, 1.0) for text in _READ["support"]]
