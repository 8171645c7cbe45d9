"""Whether learning from stars ranks a reader's papers better than rules or likeness alone.

    python -m benchmarks.learned_ranking --input PAPERS.jsonl [--stars 5 10 20] [--readers 4]

PAPERS.jsonl holds lines {"id", "title", "abstract", "categories", "day"} of real papers; fetch them
yourself. A reader is interested in a topic: a group of arXiv categories other than the four that
most papers have, so that what is relevant is not decided by the words that rank. They star some of
its papers, drawn from the three months before; each of the last days is then ranked by

    rules       phrases that such a reader would write (TOPICS below), weighted by rarity
    similarity  the mean cosine of a paper's TF-IDF vector to those of the starred ones
    learned     the site's own model, trained on the stars
    both        rules and learned points together, as a profile that uses both

Prints nDCG@30 over the days, with 95 % intervals: bootstrap over topics, whose readers stay
together.
"""

import json
import os
import random
import statistics
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments

AT = 30
DAYS, LEAST_PAPERS = 20, 60  # ranked days, and papers a day has at least
STAR_DAYS = 60  # before them, from which stars are drawn
BACKGROUND = 400  # papers of these days taken as not liked
CALIBRATED = 1_000  # further ones, among which closeness is a share
TERMS = 1_000  # weights kept, as `webapp.library.learning` keeps them
COUNTED = 2_000  # the latest of them, in which keywords are counted
# Of each topic its categories, and what a reader of it would write as keywords.
TOPICS = tomllib.loads(Path(__file__).with_name("topics.toml").read_text("utf-8"))
METHODS = ("rules", "similarity", "learned", "both")


@dataclass(frozen=True)
class Paper:
    """A paper with its vector."""

    candidate: Any
    categories: frozenset[str]
    vector: dict[str, float]


Days = list[list[Paper]]  # the papers of each
Points = list[list[float]]  # of each paper of each day
Gains = dict[str, dict[str, list[float]]]  # by topic and method, of each reader


def main() -> int:
    """Simulate, print; 1 where the model is not above rules and similarity."""
    parser = arguments(__doc__, readers=4)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--stars", type=int, nargs="+", default=[5, 10, 20])
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    import django

    django.setup()
    past, days = load(options.input)
    print(f"{sum(map(len, days))} papers of {len(days)} days ranked, {len(past)} before them")
    met = True
    for stars in options.stars:
        gains = simulate(past, days, stars, options.readers)
        for name in METHODS:
            mean, low, high = interval([by_method[name] for by_method in gains.values()])
            print(f"{stars:3d} stars  {name:10s} nDCG@{AT} {mean:.3f} ({low:.3f} to {high:.3f})")
        for name, other in (("learned", "rules"), ("learned", "similarity"), ("both", "rules"),
                            ("both", "learned")):  # fmt: skip
            mean, low, high = interval(
                [[a - b for a, b in zip(g[name], g[other], strict=True)] for g in gains.values()]
            )
            met &= low > 0 or (name, other) == ("both", "learned")
            print(f"{stars:3d} stars  {name} - {other}: {mean:+.3f} ({low:+.3f} to {high:+.3f})")
    return int(not met)


def load(source: Path) -> tuple[list[Paper], Days]:
    """Papers from which stars are drawn, and the days that are ranked."""
    from webapp.digests.scoring.scorer import Candidate
    from webapp.learning.tfidf import vector

    by_day = defaultdict(list)
    with source.open() as lines:
        for line in lines:
            row = json.loads(line)
            by_day[row["day"]].append(row)
    whole = sorted(day for day, rows in by_day.items() if len(rows) >= LEAST_PAPERS)

    def paper(row: dict[str, Any]) -> Paper:
        text = row["title"], row["abstract"]
        return Paper(Candidate(row["id"], *text), frozenset(row["categories"]), vector(*text))

    past = [paper(row) for day in whole[-DAYS - STAR_DAYS : -DAYS] for row in by_day[day]]
    return past, [[paper(row) for row in by_day[day]] for day in whole[-DAYS:]]


def simulate(past: list[Paper], days: Days, stars: int, readers: int) -> Gains:
    """By topic and method, the mean nDCG of each of its readers."""
    from sklearn.metrics import ndcg_score

    found: Gains = {}
    for topic, topic_rules in TOPICS.items():
        categories = set(topic_rules["categories"])
        mine = [paper for paper in past if paper.categories & categories]
        relevant = [[bool(p.categories & categories) for p in day] for day in days]
        if len(mine) < 2 * stars or sum(map(any, relevant)) < len(days) / 2:
            continue
        rules = rule_points(topic_rules["keywords"], past, days)
        gains = defaultdict(list)
        for seed in range(readers):
            ranked = rank(past, days, rules, random.Random(f"{topic} {seed}").sample(mine, stars))
            for name, points in ranked.items():
                judged = [(r, p) for r, p in zip(relevant, points, strict=True) if any(r)]
                # Papers with equal points share the gain.
                gains[name].append(statistics.fmean(ndcg_score([r], [p], k=AT) for r, p in judged))
        found[topic] = gains
    return found


def rule_points(keywords: list[str], past: list[Paper], days: Days) -> Points:
    """Points by a profile with these keywords, weighted by how seldom they occur in `past`."""
    from webapp.digests.scoring.scorer import Keyword, Rules, Scorer, total

    counter = Scorer([Rules((Keyword(word),)) for word in keywords])
    counted = past[-COUNTED:]
    kept = counter.kept([paper.candidate for paper in counted])
    frequencies = [1000 * len(one) / len(counted) for one in kept]
    known = tuple(
        Keyword(word, frequency=often) for word, often in zip(keywords, frequencies, strict=True)
    )
    scorer = Scorer([Rules(known, by_rarity=True)])
    return [[total(scorer.matches(0, paper.candidate)) for paper in day] for day in days]


def rank(past: list[Paper], days: Days, rules: Points, liked: list[Paper]) -> dict[str, Points]:
    """By method, the points of every paper of every day."""
    from webapp.digests.scoring import learned as closeness
    from webapp.learning.linear import pruned
    from webapp.learning.svm import Example, fit
    from webapp.learning.tfidf import dot

    chosen = {id(paper) for paper in liked}
    others = [paper for paper in past if id(paper) not in chosen]
    drawn = random.Random(0).sample(others, min(BACKGROUND + CALIBRATED, len(others)))
    background, reference = drawn[:BACKGROUND], drawn[BACKGROUND:]
    examples = [Example(paper.vector, True) for paper in liked]
    model = pruned(fit(examples + [Example(p.vector, False) for p in background]), TERMS)
    calibrated = tuple(sorted(model.log_odds(paper.vector) for paper in reference))
    known = closeness.Learned(model, calibrated, (), len(liked), "")
    centre: dict[str, float] = defaultdict(float)  # cosine to it is the mean of the cosines
    for star in liked:
        for term, value in star.vector.items():
            centre[term] += value / len(liked)
    learned = [[model.log_odds(paper.vector) for paper in day] for day in days]
    earned = [[closeness.points(known.share(odds)) for odds in day] for day in learned]
    similarity = [[dot(paper.vector, centre) for paper in day] for day in days]
    both = [[a + b for a, b in zip(*day, strict=True)] for day in zip(rules, earned, strict=True)]
    return {"rules": rules, "similarity": similarity, "learned": learned, "both": both}


def interval(by_topic: list[list[float]]) -> tuple[float, float, float]:
    """The mean over topics with its 95 % bootstrap interval, 2,000 draws of topics."""
    means = [statistics.fmean(values) for values in by_topic]
    draws = random.Random(0)
    sampled = sorted(statistics.fmean(draws.choices(means, k=len(means))) for _ in range(2000))
    return statistics.fmean(means), sampled[49], sampled[1949]


if __name__ == "__main__":
    sys.exit(main())
