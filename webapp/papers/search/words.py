"""Weight of a query's words: none for "with", little for "model", much for "lantern".

`frequencies.json` holds the number of papers in a sample that contain each stem. It is a file, so
that a search gives the same results on every database; `python -m tests.papers.word_frequencies`
writes it.
"""

import json
import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FREQUENCIES = Path(__file__).with_name("frequencies.json")
# Words of a question that say nothing of a paper: those that PostgreSQL's index leaves out too.
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can did do does doing don down during each few for from further
    had has have having he her here hers him his how i if in into is it its itself just me more
    most my no nor not now of off on once only or other our out over own s same she should so
    some such t than that the their them then there these they this those through to too towards
    under until up very via was we were what when where which while who whom why will with you
    your
    """.split()  # noqa: SIM905 - a list of them would take a hundred lines
)
# Words of a reader who asks somebody; alone they are sought as any others.
ASKING = frozenset(
    """
    article articles arxiv could find latest looking might newest paper papers please preprint
    preprints publication publications recent recently recommend would
    """.split()  # noqa: SIM905 - as above
)
IDLE = STOP_WORDS | ASKING
# Beginnings of words in British and in American spelling.
_SPELLED = dict(
    pair.split("/")
    for pair in """
    aeroplane/airplane ageing/aging aluminium/aluminum anaesthe/anesthe analogue/analog
    armour/armor artefact/artifact behaviour/behavior calibre/caliber catalogue/catalog
    centre/center colour/color defence/defense dialogue/dialog endeavour/endeavor favour/favor
    fibre/fiber flavour/flavor foetal/fetal grey/gray haemo/hemo harbour/harbor honour/honor
    humour/humor judgement/judgment labour/labor leukaemia/leukemia licence/license
    manoeuvre/maneuver mould/mold neighbour/neighbor oesophag/esophag offence/offense
    orthopaedic/orthopedic paediatric/pediatric programme/program rigour/rigor rumour/rumor
    sceptic/skeptic sulph/sulf theatre/theater tumour/tumor vapour/vapor
    """.split()  # noqa: SIM905 - as above
)
_OTHER = _SPELLED | {american: british for british, american in _SPELLED.items()}
_BEGINNING = re.compile("|".join(sorted(_OTHER, key=len, reverse=True)))
# optimise and optimize, tokenisation and tokenization, analyse and analyze
_VERB = re.compile(r"(?<=[a-z]{3})([iy])([sz])(?=(?:ers?|e[ds]?|ing|able|ations?)$)")
_ENDINGS = re.compile(r"(?:ization|isation|ations?|ings?|ized?|ised?|ers?|ed|es|ly|s|e|y)$")


def stem(word: str) -> str:
    """The word without its ending, if three letters remain."""
    short = _ENDINGS.sub("", word)
    return short if len(short) >= 3 else word


def other_spelling(word: str) -> str:
    """A folded word in American spelling if it is in British, or the reverse; else the word."""
    if match := _BEGINNING.match(word):
        word = _OTHER[match[0]] + word[match.end() :]
    return _VERB.sub(lambda verb: verb[1] + ("z" if verb[2] == "s" else "s"), word)


@cache
def _sample() -> tuple[int, dict[str, int]]:
    """Return the number of papers in the sample, and the number that contain each stem."""
    stored = json.loads(FREQUENCIES.read_text())
    return stored["papers"], stored["stems"]


def rarity(word: str) -> float:
    """The inverse document frequency of a folded word or its stem: ln(papers / those with it).

    Of two spellings, that of the more frequent.
    """
    papers, stems = _sample()
    spellings = {word, other_spelling(word)}
    return math.log(papers / max(stems.get(word) or stems.get(stem(word), 1) for word in spellings))


def telling_sets(rarities: Sequence[float], enough: float, most: int) -> list[tuple[int, ...]]:
    """At most `most` smallest sets of words whose rarities add up to `enough`, the rarest first.

    Words are numbered by their place in `rarities`. A paper that contains all words of any of
    these sets shares `enough` with the query; if words were independent, one in e^enough would.
    """
    order = sorted(range(len(rarities)), key=lambda n: -rarities[n])
    sets: list[tuple[int, ...]] = []

    def extend(chosen: tuple[int, ...], start: int, missing: float) -> None:
        for at in range(start, len(order)):
            if len(sets) >= most:
                return
            word = order[at]
            if rarities[word] >= missing:
                sets.append((*chosen, word))
            elif sum(rarities[n] for n in order[at:]) >= missing:
                extend((*chosen, word), at + 1, missing - rarities[word])
            else:
                return  # the words that follow are no rarer

    extend((), 0, enough)
    return sets
