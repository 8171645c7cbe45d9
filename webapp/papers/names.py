"""Authors' names in the parts that reference managers use: given, particle, family, suffix.

arXiv gives a name on one line, given names first; BibTeX, RIS, CSL and Zotero need the family name
apart. A name without one, of a team or a single word, is kept whole.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from webapp.papers.folding import fold
from webapp.ui.markup import without_tex

# Before a family name, in lower case; CSL calls them non-dropping (https://docs.citationstyles.org,
# "demote-non-dropping-particle").
PARTICLES = frozenset(
    {"af", "al", "ap", "auf", "aus", "av", "bin", "bint", "da", "dal", "dalla", "dalle", "das"}
    | {"de", "degli", "dei", "del", "dela", "della", "delle", "den", "der", "des", "di", "do"}
    | {"dos", "du", "e", "el", "en", "het", "ibn", "im", "in", "la", "las", "le", "li", "lo"}
    | {"los", "op", "san", "st.", "te", "ten", "ter", "til", "tot", "und", "van", "vande"}
    | {"vanden", "vander", "vom", "von", "vor", "y", "z", "zu", "zum", "zur", "à", "'t", "’t"}
)
_SUFFIX = re.compile(
    r"(?:jr|sr|jnr|snr|ii|iii|iv|vi{0,3}|2nd|3rd|4th|ph\.?\s?d|m\.?d|esq)\.?", re.I
)
# In capitals only these belong to a family name; "Bin" or "Do" are given names too.
_CAPITALS = frozenset(
    {"al", "da", "de", "del", "della", "der", "den", "di", "dos", "du", "el", "la", "le", "van"}
    | {"vande", "vanden", "vander", "von", "st.", "ter", "ten", "las", "los"}
)
# Vietnamese names, in which "Van" and "Le" are given names: the family name stands first.
_VIETNAMESE = frozenset(
    {"bui", "cao", "dang", "dao", "dinh", "do", "doan", "duong", "ha", "ho", "hoang", "huynh"}
    | {"le", "luong", "luu", "ly", "mai", "ngo", "nguyen", "pham", "phan", "phung", "ta", "thai"}
    | {"tran", "trinh", "truong", "vo", "vu", "van"}
)
# Signs of a team: these words anywhere, and characters that no person's name has.
_TEAM = re.compile(
    r"\b(?:collaboration|consortium|team|group|project|initiative|network|committee|community"
    r"|alliance|foundation|institute|laborator(?:y|ies)|labs?|university|society|council|centre"
    r"|center|organi[sz]ation|working|members|contributors|authors|association|survey|agency"
    r"|department|school|board|task force|et al|for the|on behalf|and)\b|[:;/@&()\[\]]|\d",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Name:
    """A person's name in its parts, or `literal` for a team or a single name."""

    given: str = ""
    particle: str = ""
    family: str = ""
    suffix: str = ""
    literal: str = ""

    @property
    def last(self) -> str:
        """The family name with its particle, or the whole name."""
        return " ".join(filter(None, (self.particle, self.family))) or self.literal

    @property
    def in_order(self) -> str:
        """The name with given names first, as arXiv has it, without a suffix."""
        return " ".join(filter(None, (self.given, self.last)))

    @property
    def inverted(self) -> str:
        """`Family, Given, Suffix`, as RIS has it."""
        return ", ".join(filter(None, (self.last, self.given, self.suffix)))

    @property
    def is_whole(self) -> bool:
        """True if a last name was read and no character is left that names do not have."""
        text = f"{self.given}{self.particle}{self.family}{self.suffix}{self.literal}"
        return bool(self.last) and not re.search(r"[\\{}$^_<>|]", text)


def unicode_name(text: str) -> str:
    """Convert a name or affiliation from the TeX of arXiv's feeds to Unicode."""
    if not any(sign in text for sign in ("\\", "{", "~", "--")):
        return text
    plain = without_tex(without_tex(re.sub(r"(?<!\\)~|\\[,;: ]", " ", text)))  # two on a letter
    return " ".join(re.sub(r"[{}]", "", plain).split())


@lru_cache(maxsize=8192)
def parse_name(text: str) -> Name:
    """Parse a name as arXiv writes it, or inverted (`Cole, Ada, III`). Never fails."""
    words = text.replace("~", " ").split()
    text = " ".join(words)
    if len(words) < 2 or _TEAM.search(text):
        return Name(literal=text)
    head, *rest = (part.strip() for part in text.strip(" ,").split(","))
    suffixes = [part for part in rest if _SUFFIX.fullmatch(part)]
    given = " ".join(part for part in rest if part and not _SUFFIX.fullmatch(part))
    if given:
        particle, family = _with_particle(head.split())
        return Name(given, particle, family, " ".join(suffixes))
    words = head.split()
    while len(words) > 2 and _SUFFIX.fullmatch(words[-1]) and words[-1] not in {"I.", "V."}:
        suffixes.insert(0, words.pop())
    if len(words) < 2:
        return Name(literal=head, suffix=" ".join(suffixes))
    start = _family_from(words)
    particle, family = _with_particle(words[start:])
    return Name(" ".join(words[:start]), particle, family, " ".join(suffixes))


def _family_from(words: list[str]) -> int:
    """Return the index at which the family name begins.

    It is that of the first particle in lower case, else of the last word and the particles in
    capitals before it.
    """
    for start in range(1, len(words) - 1):
        if words[start].lower() in PARTICLES and not words[start][0].isupper():
            return start
    start = len(words) - 1
    if words[0].lower() not in _VIETNAMESE:
        while start > 1 and words[start - 1].lower() in _CAPITALS:
            start -= 1
    return start


def _with_particle(words: list[str]) -> tuple[str, str]:
    """Split a family name into its particle, in lower case, and the rest."""
    end = 0
    while end < len(words) - 1 and words[end] in PARTICLES:
        end += 1
    return " ".join(words[:end]), " ".join(words[end:])


_APOSTROPHES = re.compile("['’‘ʼʹ′`´]")
_KEY_LENGTH = 3  # letters at the end of a name, by which names that may be equal are looked up
# Letters as they are written where they are missing; `fold` only takes their marks away.
_IN_TWO = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"}
    | {"Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)
# Two letters that may be such a one: not the ue of Bauer, Xue and Miquel.
_MAYBE_ONE = re.compile(r"(?<![aeiouqxy])([aou])e|(a)a", re.IGNORECASE)


@dataclass(frozen=True)
class ComparableName:
    """A name without case, accents, punctuation and suffix. Names of the same letters are equal.

    `in_two` is the name with ü as ue: Müller is Muller and Mueller, though these are two names.
    """

    letters: str
    surnames: frozenset[str] = field(compare=False)  # with the particle and without
    given: tuple[str, ...] = field(compare=False)
    in_two: "ComparableName | None" = None

    @property
    def forms(self) -> tuple["ComparableName", ...]:
        """The name, and the name with ü as ue if that differs."""
        return (self, self.in_two) if self.in_two else (self,)

    @property
    def keys(self) -> set[str]:
        """The last letters of each form; a name shares one with every name that it matches."""
        return {form.letters[-_KEY_LENGTH:] for form in self.forms}

    def matches(self, author: "ComparableName") -> bool:
        """True if this name may refer to the author, in any form of both."""
        return any(form._refers_to(other) for form in self.forms for other in author.forms)

    def _refers_to(self, author: "ComparableName") -> bool:
        """True if this form may refer to the author's.

        A surname alone refers to everybody of that name. An initial stands for a given name, and
        initials after the first name may be missing: `Jane Doe` is `Jane F. Doe`.
        """
        if self.letters in {author.letters, *author.surnames}:
            return True
        if not (self.given and author.given and self.surnames & author.surnames):
            return False
        (first, *middle), (other_first, *others) = self.given, author.given
        if first not in {other_first, other_first[0]}:
            return False
        # Two middle names agree if they are equal, or if either is the other's initial.
        for name, other in zip(middle, others, strict=False):
            if name != other and (name[0] != other[0] or len(name) > 1 < len(other)):
                return False
        is_short = all(len(name) == 1 for name in self.given)  # J. Doe is also Jane Mary Doe
        missing = middle[len(others) :] + ([] if is_short else others[len(middle) :])
        return all(len(name) == 1 for name in missing)


@lru_cache(maxsize=8192)
def comparable_name(text: str) -> ComparableName:
    """Return a name in the form in which names are compared."""
    in_two = _in_two(text)
    name = parse_name(text)
    last = _comparable_words(name.last)
    given = _comparable_words(name.given)
    surnames = {"".join(last), "".join(_comparable_words(name.family or name.literal))}
    return ComparableName(
        "".join([*given, *last]),
        frozenset(surnames - {""}),
        tuple(given),
        None if in_two == text else comparable_name(in_two),
    )


def spellings(name: str) -> list[str]:
    """A name as it is, with ü as ue and with ue as u, by which it may be in the index."""
    return list(dict.fromkeys((name, _in_two(name), _MAYBE_ONE.sub(r"\1\2", name))))


def _in_two(text: str) -> str:
    """The text with ü as ue, however its marks are encoded; the text itself without any."""
    composed = unicodedata.normalize("NFC", text)
    in_two = composed.translate(_IN_TWO)
    return text if in_two == composed else in_two


def wrote(name: str, authors: Iterable[str]) -> bool:
    """True if a name matches one of the authors."""
    sought = comparable_name(name)
    return any(sought.matches(comparable_name(author)) for author in authors)


def _comparable_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", without_apostrophes(fold(text)))


def without_apostrophes(text: str) -> str:
    """Remove apostrophes of every kind, which names are written with and without."""
    return _APOSTROPHES.sub("", text)
