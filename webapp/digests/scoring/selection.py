"""The papers of a digest, chosen from those that rules keep, in reading order."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from webapp.digests.scoring.rules import Candidate, Kept, Rules, Standing
from webapp.learning import preferences as learned

BESIDE = 3  # this part of a digest's size is room for the closest papers beside keywords' matches
NEAREST = 30  # papers of a digest that are folded, the nearest of the rest
_LAST = datetime.max.replace(tzinfo=UTC)


def in_order(rules: Rules, kept: Iterable[Kept], candidates: Sequence[Candidate]) -> list[Kept]:
    """Return the reading order: by standing, authors that are followed first, then by score.

    Ties are in the order of submission, then of identifiers.

    With the seed bot's rule papers of the same score stay in the order of their announcement.
    """

    def place(paper: Kept) -> tuple[Standing, bool, float, float, datetime, str]:
        candidate = candidates[paper.at]
        return (
            paper.standing,
            not paper.by_author,
            -paper.score,
            -paper.log_odds,
            candidate.submitted_at or _LAST,
            candidate.id,
        )

    return sorted(kept, key=(lambda paper: -paper.score) if rules.substring else place)


def select(
    rules: Rules, kept: Iterable[Kept], candidates: Sequence[Candidate]
) -> tuple[list[Kept], list[Kept]]:
    """Return the papers of a digest, and those of its further pages, each in reading order.

    A digest has at most its size of papers that are about the profile's subject, followed by as
    many lower matches. With a learned model, a digest has everything that it has by the rules
    alone, and also the papers that are close: they fill it up, and may make up a third of its size.
    After them come the lower matches and the nearest of the rest, and there are no further pages.
    """
    ordered, size = in_order(rules, kept, candidates), rules.size
    if rules.learned is None:
        return _cut(ordered, size)
    matching = [p._replace(score=p.by_rules, log_odds=0.0) for p in ordered if p.matches]
    about = [paper for paper in matching if paper.standing is Standing.ABOUT]
    chosen = {paper.at for paper in in_order(rules, about, candidates)[:size]}
    others = sorted((p for p in ordered if p.at not in chosen), key=lambda paper: -paper.closeness)
    room = max(size - len(chosen), size // BESIDE if rules.keywords else 0)
    chosen |= {paper.at for paper in others[:room] if paper.closeness >= learned.CLOSE}
    listed = [paper._replace(standing=Standing.ABOUT) for paper in ordered if paper.at in chosen]
    rest = [paper for paper in ordered if paper.at not in chosen]
    lower = [p._replace(standing=max(p.standing, Standing.BELOW)) for p in rest if p.matches]
    folded = in_order(rules, lower, candidates)[:size]
    # The site's own list leaves them out: nobody's saved papers say what they are near to.
    most = 0 if rules.learned.keyword_closeness else NEAREST
    nearest = [paper for paper in others if paper.at not in chosen and not paper.matches][:most]
    return in_order(rules, listed, candidates) + folded + nearest, []


def _cut(ordered: list[Kept], size: int) -> tuple[list[Kept], list[Kept]]:
    """The first that are about it and the first that only mention it; then the rest of both."""
    about = [paper for paper in ordered if paper.standing is Standing.ABOUT]
    apart = [paper for paper in ordered if paper.standing is not Standing.ABOUT]
    return about[:size] + apart[:size], about[size:] + apart[size:]
