"""Nine numbers that tell a healthy run from one that only looks like it, and what to do.

The notes give eight monitors a formula, an abnormal range and an action; `diagnose` is that table.
The ninth is ours: what the planner's own plan is worth. All others look at plans chosen for the
text itself, and see nothing where the planner cannot write one.
"""

import math
from dataclasses import dataclass, field, fields


@dataclass
class Stats:
    """What a run looks like at one step. NaN: not measured."""

    progress: float = math.nan  # share of training done
    shuffled: float = math.nan  # nats a token lost under another sample's concepts
    masked: float = math.nan  # under none
    random: float = math.nan  # under random ones
    gain: float = math.nan  # NLL of the concept-free model - NLL, nats a token
    own: float = math.nan  # the same under the planner's own plan, written from the prompt alone
    margin: float = math.nan  # S(best) - S(second), distinct candidates, nats
    flips: float = math.nan  # share of z* that changed at the last E-step
    staleness: float = math.nan  # S(z_new) - S(z_old) under current weights, nats
    entropy: float = math.nan  # of the planner, as a share of ln V
    max_prob: float = math.nan  # of the planner
    agreement: float = math.nan  # cos(p E, E[argmax])
    grad_norm: float = math.nan  # of the planner
    grad_median: float = math.nan  # its running median
    codes: float = math.nan  # codes used, as a share of the smaller of V and the samples
    buckets: list[float] = field(default_factory=list)  # NLL a token by position
    bucket_width: int = 64  # positions in a bucket; narrower ones are drawn, not judged


@dataclass
class Trace:
    """Monitors over the steps of a run."""

    steps: list[int] = field(default_factory=list)
    stats: list[Stats] = field(default_factory=list)


@dataclass(frozen=True)
class Action:
    """A symptom found in a run, in a sentence, and what to try."""

    monitor: str
    symptom: str
    action: str


BANDS: dict[str, tuple[float | None, float | None]] = {
    "shuffled": (0.02, None),
    "masked": (0.02, None),
    "random": (0.02, None),
    "gain": (0.0, None),
    "own": (0.0, None),
    "margin": (0.1, 10.0),
    "flips": (0.02, 0.5),
    "staleness": (None, 1.0),
    "entropy": (0.05, 0.9),
    "agreement": (0.7, None),
    "grad_norm": (0.02, None),
    "codes": (0.25, None),
}


def diagnose(stats: Stats) -> list[Action]:
    """The notes' table from symptom to action; an empty list for a healthy run.

    A number that was not measured says nothing. "Late" is the second half of training, "early" the
    first fifth.
    """
    s = stats
    late, early = s.progress > 0.5, s.progress < 0.2
    found: list[Action] = []

    def when(abnormal: bool, monitor: str, symptom: str, action: str) -> None:
        if abnormal:
            found.append(Action(monitor, symptom, action))

    ignored = max(s.shuffled, s.random) if not math.isnan(s.random) else s.shuffled
    when(
        ignored < 0.02,
        "shuffled",
        f"the text does not depend on its concepts: others cost {ignored:.3f} nats a token",
        "hide more of the text from the executor (prefix dropout), narrow what it can see besides "
        "its concepts (a shallow window), and give it more codes or slots",
    )
    when(
        s.gain <= 0,
        "gain",
        f"with its concepts the model is no better than one without them ({s.gain:+.3f} nats)",
        "strengthen the bottleneck and warm up the recogniser longer; compare with the floor: what "
        "the prompt cannot predict never helps",
    )
    when(
        s.own <= 0 and s.progress > 0.3,
        "own",
        f"the planner's own plan is worth no more than none ({s.own:+.3f} nats a token)",
        "make plans of what the prompt foretells: warm up through the prompt, or by the ELBO, "
        "which charges the recogniser for what the planner cannot know",
    )
    when(
        s.margin < 0.1 and s.flips > 0.5,
        "margin",
        f"candidates are as good as each other ({s.margin:.2f} nats) and z* jumps between them",
        "draw more and more different candidates, and lower the learning rate",
    )
    when(
        s.margin > 10 and s.flips < 0.02,
        "margin",
        f"one candidate wins by {s.margin:.1f} nats and nothing challenges it",
        "add mutations and planner samples at a higher temperature",
    )
    when(
        s.flips > 0.5 and late,
        "flips",
        f"{s.flips:.0%} of the plans still change at every E-step",
        "lower the learning rate or choose plans less often, so that the planner can follow",
    )
    when(
        s.flips < 0.02 and early,
        "flips",
        f"only {s.flips:.1%} of the plans changed, although training has just begun",
        "add candidates: samples of the recogniser and one-token mutations",
    )
    when(
        s.staleness > 1,
        "staleness",
        f"plans kept from earlier are {s.staleness:.2f} nats worse than what is found now",
        "choose plans more often (a smaller M)",
    )
    when(
        s.entropy < 0.05 and s.codes <= 0.25,
        "entropy",
        f"the planner always writes the same: {s.codes:.0%} of the codes are used",
        "start again with the warm-up autoencoder and its usage bonus; anneal beta from 0",
    )
    when(
        s.entropy > 0.9 and s.progress > 0.3,
        "entropy",
        f"the planner guesses: its entropy is {s.entropy:.0%} of the most it can be",
        "train it longer on z*, or check that the prompt says anything about the text",
    )
    when(
        s.codes <= 0.25,
        "codes",
        f"only {s.codes:.0%} of the codes are in use",
        "raise the usage bonus, warm up on fresh data, and reset the dead codes",
    )
    when(
        s.agreement < 0.7 and late,
        "agreement",
        f"soft and hard concepts disagree late in training (cosine {s.agreement:.2f})",
        "lower the temperature of the straight-through samples",
    )
    when(
        s.agreement > 0.999 and s.entropy < 0.05 and early,
        "agreement",
        "soft and hard concepts are one and the planner has no entropy: nothing is explored",
        "raise the temperature",
    )
    when(
        s.grad_norm < 0.02 and s.entropy > 0.05,
        "grad_norm",
        f"no gradient reaches the planner (norm {s.grad_norm:.3f}) though it is not sure yet",
        "check the weight of its loss, and that plans end in EOS",
    )
    when(
        s.grad_norm > 10 * s.grad_median,
        "grad_norm",
        f"the planner's gradient is {s.grad_norm / max(s.grad_median, 1e-9):.0f} times its median",
        "clip gradients, lower the rate; look at the batch that caused it",
    )
    if len(s.buckets) >= 2 and s.bucket_width >= 64:
        first, rest = s.buckets[0], sum(s.buckets[1:]) / (len(s.buckets) - 1)
        when(
            s.gain > 0 and rest - first > 0.5 * rest,
            "buckets",
            f"concepts help the beginning only: {first:.2f} nats a token there, {rest:.2f} after",
            "train on short texts first and lengthen them; give long texts more concepts",
        )
    return found


def measured(stats: Stats) -> dict[str, float]:
    """The numbers of `stats` that were measured, by name."""
    values = {
        f.name: getattr(stats, f.name) for f in fields(stats) if not f.name.startswith("bucket")
    }
    return {name: value for name, value in values.items() if not math.isnan(value)}
