"""The time to score papers.

    python -m benchmarks.scoring [--rounds 7] [--stream 1000000]

A day of 1,500 synthetic papers (words by Zipf's law, a fifth of the keywords phrases) is scored by
100 profiles of 30 keywords, by points as written and by place, and by one; the variants take turns,
each round begins with nothing compiled. Then one new profile over a stream of papers, each made
from a pool of distinct texts and never held. Fails over a target.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import accumulate, islice

from benchmarks.figures import Figure, arguments, report
from methods.measure.statistics import geometric_interval
from tests.digests import seed_bot
from webapp.digests.scoring.rules import Candidate, Kept, Keyword, Rules
from webapp.digests.scoring.scorer import Scorer
from webapp.digests.scoring.selection import in_order

WORDS = 20_000
DAY_MS = 500  # 1,500 papers, 100 profiles of 30 keywords
STREAM_TARGET = 10.0  # seconds: one new profile, a million papers
POOL = 25_000  # distinct papers of the stream


def main() -> int:
    """Measure and print; 1 over a target, else 0."""
    options = arguments(__doc__, rounds=7, stream=1_000_000).parse_args()
    names = vocabulary()
    day = list(islice(papers(names, seed=1), 1500))
    return report([*a_day(day, names, options.rounds), a_stream(names, options.stream)])


def a_day(day: list[Candidate], names: list[str], rounds: int) -> Iterator[Figure]:
    """The cost of scoring a day."""
    many = profiles(names, 100)
    by_place = [replace(one, by_place=True) for one in many]
    single = [Rules(tuple(map(Keyword, seed_bot.KEYWORDS)))]
    variants: dict[str, Callable[[], object]] = {
        "100 profiles, words": lambda: score(many, day),
        "100 profiles, by place": lambda: score(by_place, day),
        "1 profile, words": lambda: score(single, day),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            began = time.process_time()
            run()
            times[name].append(1000 * (time.process_time() - began))
    for name, taken in times.items():
        mean = geometric_interval(taken)
        target = DAY_MS if name.startswith("100") else None
        interval = f"{mean.low:.1f} to {mean.high:.1f}"
        yield Figure(f"{len(day):,} papers, {name}", mean.value, "ms", target, beside=interval)


def a_stream(names: list[str], count: int) -> Figure:
    """A new profile over `count` papers."""
    pool = list(islice(papers(names, seed=2), min(POOL, count)))
    scorer = Scorer([Rules(tuple(map(Keyword, seed_bot.KEYWORDS)))])
    stream = (pool[number % len(pool)] for number in range(count))
    began = time.process_time()
    kept = len(scorer.kept(stream)[0])
    taken = time.process_time() - began
    allowed = STREAM_TARGET * count / 1_000_000
    sizes = f"{len(pool):,} distinct, {kept:,} kept"
    return Figure(f"one new profile over {count:,} papers", taken, "s", allowed, beside=sizes)


def score(rules: list[Rules], day: list[Candidate]) -> list[list[Kept]]:
    """Each profile's day in reading order, with nothing compiled before."""
    kept = Scorer(rules).kept(day)
    return [
        in_order(of_profile, found, day)[: of_profile.size]
        for of_profile, found in zip(rules, kept, strict=True)
    ]


def profiles(names: list[str], count: int) -> list[Rules]:
    """Profiles of 30 keywords each, such that they keep about as many papers as the seed bot's."""
    chance = random.Random(3)
    usual = names[50:2500]
    made = []
    for _ in range(count):
        words = chance.sample(usual, 36)
        phrases = [" ".join(pair) for pair in zip(words[:6], words[6:12], strict=True)]
        made.append(Rules(tuple(map(Keyword, [*phrases, *words[12:]]))))
    return made


@cache
def word(rank: int) -> str:
    """The word of a rank: syllables in base 50."""
    syllables = [a + b for a in "bdfgklmnrs" for b in "aeiou"]
    text = syllables[rank % 50]
    while rank := rank // 50:
        text += syllables[rank % 50]
    return text + "n"


def vocabulary() -> list[str]:
    """Words by rank; the seed bot's keywords stand among the usual ones."""
    names = [word(rank) for rank in range(WORDS)]
    for place, keyword in enumerate(seed_bot.KEYWORDS):
        names[150 + place * 40] = keyword
    return names


def papers(names: list[str], seed: int) -> Iterator[Candidate]:
    """Papers without end, of 10 and 190 words (some 1,300 characters); the same every time.

    Their abstracts have eight sentences, of which the fourth says what is proposed.
    """
    chance = random.Random(seed)
    weights = list(accumulate(1 / (rank + 3) for rank in range(len(names))))
    number = 0
    while True:
        words = chance.choices(names, cum_weights=weights, k=200)
        words[10 + 3 * 24 : 10 + 3 * 24 + 2] = ["we", "propose"]
        sentences = (" ".join(words[first : first + 24]) for first in range(10, 200, 24))
        abstract = " ".join(f"{one[0].upper()}{one[1:]}." for one in sentences)
        yield Candidate(f"{number:07d}", " ".join(words[:10]), abstract)
        number += 1


if __name__ == "__main__":
    sys.exit(main())
