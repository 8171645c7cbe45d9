"""The keywords of a new site: methods that make large models cheaper to train and to run.

`defaults.json` has for each keyword the number of papers with it, of 1,000 recent papers in cs.AI,
cs.CL, cs.CV and cs.LG (of June 2026, or of autumn 2025). A site counts its own papers
once it has enough of them. Words with a sign tell the field: of two papers on quantization the one
on language models is wanted more often, the one on patients less. They and the minimum score were
chosen on fifteen days that were read by eye.
"""

import json
from pathlib import Path

from webapp.digests.scoring.scorer import Keyword

_READ = json.loads(Path(__file__).with_suffix(".json").read_text())
KEYWORDS: dict[str, float] = _READ["keywords"]  # by frequency
EXCLUDE: tuple[str, ...] = tuple(_READ["exclude"])
MIN_SCORE: float = _READ["min_score"]


def default_keywords() -> list[Keyword]:
    """Those of a new site, and the words with a sign."""
    sought = [Keyword(text, frequency=frequency) for text, frequency in KEYWORDS.items()]
    return sought + [Keyword(**keyword) for keyword in _READ["signed"]]
