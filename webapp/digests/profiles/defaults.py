"""The keywords of a new site: methods that make large models cheaper to train and to run.

`defaults.json` has for each keyword the number of papers with it, of 1,000 papers of June 2026 in
cs.AI, cs.CL, cs.CV and cs.LG. A site counts its own papers once it has enough of them.
"""

import json
from pathlib import Path

_READ = json.loads(Path(__file__).with_suffix(".json").read_text())
KEYWORDS: dict[str, float] = _READ["keywords"]
EXCLUDE: tuple[str, ...] = tuple(_READ["exclude"])
