"""One grammar of numbers: what the extractor finds and what grounding compares.

`folding` spells a text in one way, `units` names units, `words` reads numbers in words, `reader`
puts them together.
"""

from .folding import Folded, fold, fold_with_places
from .number import Number
from .reader import numbers, numbers_in
from .units import SIZES, TIMES, unit_at, unit_named
