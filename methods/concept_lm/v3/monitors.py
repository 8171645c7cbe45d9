"""Nine numbers that tell a healthy run from one that only looks like it, and what to do.

The notes give eight monitors a formula, an abnormal range and an action; `diagnose` is that table.
The ninth is ours: what the planner's own plan is worth. All others look at plans chosen for the
text itself, and see nothing where the planner cannot write one.
"""

import math
import statistics
import tomllib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stats:
    """The monitors of a run at one step. NaN: not measured."""

    progress: float = math.nan  # share of training done
    shuffled: float = math.nan  # nats a token lost under another sample's concepts
    masked: float = math.nan  # under none
    random: float = math.nan  # under random ones
    gain: float = math.nan  # NLL of the concept-free model - NLL, nats a token
    own: float = math.nan  # the same under the planner's own plan, written from the prompt alone
    margin: float = math.nan  # S(best) - S(second), distinct candidates, nats
    flips: float = math.nan  # share of z* of which the last E-step edited more than a quarter
    staleness: float = math.nan  # S(z_new) - S(z_old) under current weights, nats
    entropy: float = math.nan  # of the planner, as a share of ln V
    max_prob: float = math.nan  # of the planner
    agreement: float = math.nan  # cos(p E, E[argmax])
    grad_norm: float = math.nan  # of the planner
    grad_median: float = math.nan  # its running median
    codes: float = math.nan  # codes used, as a share of V, or of all concepts of the plans if fewer
    buckets: list[float] = field(default_factory=list)  # NLL a token by position
    bucket_width: int = 64  # positions in a bucket; narrower ones are drawn, not judged


Trace = dict[int, Stats]  # monitors of a run by the number of steps done


@dataclass(frozen=True)
class Action:
    """A symptom found in a run, in a sentence, and what to try."""

    monitor: str
    symptom: str
    action: str


# What each symptom means and what to try.
WORDS = tomllib.loads((Path(__file__).parent / "monitors.toml").read_text("utf-8"))["symptoms"]


def diagnose(stats: Stats) -> list[Action]:
    """The notes' table from symptom to action; an empty list for a healthy run.

    A number that was not measured says nothing. "Late" is the second half of training, "early" the
    first fifth.
    """
    s = stats
    late, early = s.progress > 0.5, s.progress < 0.2
    others = max(s.shuffled, s.random) if not math.isnan(s.random) else s.shuffled
    long = len(s.buckets) >= 2 and s.bucket_width >= 64
    first, rest = (s.buckets[0], statistics.mean(s.buckets[1:])) if long else (math.nan, math.nan)
    present = {
        "ignored": others < 0.02,
        "no_gain": s.gain <= 0,
        "cannot_plan": s.own <= 0 and s.progress > 0.3,
        "undecided": s.margin < 0.1 and s.flips > 0.5,
        "unchallenged": s.margin > 10 and s.flips < 0.02,
        "restless": s.flips > 0.5 and late,
        "frozen": s.flips < 0.02 and early,
        "stale": s.staleness > 1,
        "one_plan": s.entropy < 0.05 and s.codes <= 0.25,
        "guessing": s.entropy > 0.9 and s.progress > 0.3,
        "few_codes": s.codes <= 0.25,
        "torn": s.agreement < 0.7 and late,
        "unexplored": s.agreement > 0.999 and s.entropy < 0.05 and early,
        "no_gradient": s.grad_norm < 0.02 and s.entropy > 0.05,
        "leap": s.grad_norm > 10 * s.grad_median,
        "beginning_only": s.gain > 0 and rest - first > 0.5 * rest,
    }
    leap = s.grad_norm / max(s.grad_median, 1e-9)
    figures = vars(s) | {"others": others, "first": first, "rest": rest, "leap": leap}
    symptoms = [WORDS[name] for name, is_so in present.items() if is_so]
    return [Action(**row | {"symptom": row["symptom"].format(**figures)}) for row in symptoms]
