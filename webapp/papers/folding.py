"""Texts as they are compared: search, its index, keywords, names and citation keys.

Case, accents and ligatures make no difference, letters without a decomposition are those that
readers type for them, a Greek letter is its name, and a simple formula is its characters: `$F_1$`
is f1, `CO$_2$` is co2, `$\\beta$-VAE` and `β-VAE` are beta-vae. PostgreSQL folds by the same tables
(`migrations/0010`).
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

# Letters that Unicode does not decompose, as readers without them on their keyboard type them.
LETTERS = {
    "ł": "l",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "ħ": "h",
    "ı": "i",
    "ŧ": "t",
    "ŋ": "n",
    "ĸ": "k",
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
    "ƶ": "z",
    "ɨ": "i",
    "ə": "e",
    "ʼ": "'",
}
GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "ι": "iota",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "ξ": "xi",
    "ο": "omicron",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "ς": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "φ": "phi",
    "χ": "chi",
    "ψ": "psi",
    "ω": "omega",
}
# Formulas in lower case, in the order of application; `re`, RE2 and PostgreSQL read them alike.
FORMULAS = (
    (r"\\el(l)([^a-z])", r"\1\2"),  # the script l of $\ell_1$
    (r"\\var(epsilon|theta|rho|sigma|phi|pi)", r"\1"),
    (
        r"\\(?:mathrm|mathbf|mathit|mathsf|mathcal|text|textbf|textit|rm|bf)\s*\{([a-z0-9]+)\}",
        r"\1",
    ),
    (r"\$\\?([a-z0-9]*)[_^]\{?\\?([a-z0-9+]+)\}?\$", r"\1\2"),
    (r"\$\\?([a-z0-9]+)\$", r"\1"),
)
# Accents, and the voicing marks of Japanese, once they are apart from their letters.
MARKS = r"[\u0300-\u036f\u3099\u309a]"
# Words of scripts without blanks are found by their characters.
UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_FORMULAS = tuple((re.compile(pattern), to) for pattern, to in FORMULAS)
_MARKS = re.compile(MARKS)
_TABLE = str.maketrans(LETTERS | GREEK)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold(text: str) -> str:
    """`text` in lower case and folded."""
    text = text.lower()
    if "$" in text:
        for pattern, to in _FORMULAS:
            text = pattern.sub(to, text)
    if text.isascii():  # nearly every text: hundreds are ranked for one search
        return text
    return _BEYOND_ASCII.sub(lambda letters: _bare(letters[0]), text)


def folded(text: str) -> tuple[str, Sequence[int]]:
    """`fold(text)`, and for each of its characters the place in `text` that it comes from."""
    if text.isascii() and "$" not in text:
        return text.lower(), range(len(text))
    return _folded(text)


@lru_cache(500)  # a day has some three hundred such abstracts, in which each profile looks
def _folded(text: str) -> tuple[str, Sequence[int]]:
    low = "".join(char.lower() for char in text)
    places = [place for place, char in enumerate(text) for _ in char.lower()]
    for pattern, to in _FORMULAS if "$" in text else ():
        groups = range(1, to.count("\\") + 1)
        indices: list[int] = []
        place = 0
        for match in pattern.finditer(low):
            indices += range(place, match.start())
            for group in groups:
                indices += range(*match.span(group))
            place = match.end()
        indices += range(place, len(low))
        low, places = "".join(low[place] for place in indices), [places[place] for place in indices]
    bare = [(bare, place) for char, place in zip(low, places, strict=True) for bare in _bare(char)]
    return "".join(char for char, _ in bare), [place for _, place in bare]


def _bare(text: str) -> str:
    # Bold letters of mathematics have a case only once they are plain ones.
    letters = _MARKS.sub("", unicodedata.normalize("NFKD", text)).lower()
    # Composed again: Korean syllables came apart as accents did.
    return unicodedata.normalize("NFC", letters.translate(_TABLE))
