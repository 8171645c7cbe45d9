"""The words that tell an outcome from a setting, in folded text (lower case, no inner hyphens)."""

import re

from webapp.core.tables import table

_WORDS: dict[str, str] = table(__file__, "words.toml")
SHOWN_UNITS: dict[str, str] = table(__file__, "units.toml")


def alternatives(written: str) -> str:
    """Return a pattern for any of the words, which blanks part; `_` is a blank inside of one."""
    return "(?:" + "|".join(word.replace("_", " ") for word in written.split()) + ")"


def words(name: str) -> str:
    """Return a pattern for any of the words that `words.toml` lists under a name."""
    return alternatives(_WORDS[name])


# Beginnings of words that report a result.
RESULT = re.compile(r"\b" + words("result") + "|提升|提高|降低|减少|达到|加速|优于")
# "recent studies indicate that 47 % of students", "models have been reported to exceed 90 %"
OTHERS_RESULT = re.compile(r"\b" + words("others' result"))
OWN_WORK = re.compile(r"\b" + words("own work") + r"\b|我们|本文")
CHANGES = re.compile(r"(?<![a-z])" + words("changes"))
DATA_DESCRIBED = re.compile(r"\b" + words("data described") + r"\b")
METRIC = words("metric")
METRIC_WORD = re.compile(rf"(?<![a-z]){METRIC}(?![a-z])")
