"""Grammar of numbers, shared by extraction and grounding.

`folding` normalises the spelling of a text, `units` names units, `words` reads numbers in words,
and `reader` combines them.
"""

from .folding import Folded, fold, fold_with_places
from .number import Number
from .reader import numbers, numbers_in
from .units import SIZES, TIMES, unit_at, unit_named
