"""Hard-EM: choose each example's plan, then train on the choice.

    z* = argmax over candidates of  log p(y | z) + beta log p(z | u)          (E)
    executor: -log p(y | z*)    planner: -log p(z* | u)    recogniser: CE(q(y), z*)   (M)

S(z) = log p(y | z) + log p(z | u) <= log p(y | u): a plan is worth what u can foretell of y, and
information that u cannot predict never helps.

Naive Hard-EM starts from nothing: the executor ignores plans that mean nothing, and then no plan is
better than another. What decides is the warm-up: an autoencoder on fresh data, with part of y
hidden from the executor and a bonus for using many codes surely. Through the text,
y -> q -> z -> y, z learns to carry y, foretold or not; through the prompt, u -> planner -> z -> y,
it carries what u foretells.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from ...kit.checkpoint import Checkpoint
from ...kit.config import PositiveShare, Share, configuration
from ...kit.noise import gumbel
from ...kit.precision import at_least_single
from ...kit.seeds import seeded
from ...kit.training import History, Plan, fit
from ..head import entropy, usage
from .estep import EStep, edited
from .executor import Executor, Recogniser
from .monitors import Stats, Trace
from .planner import Planner, PlanShape, close
from .role import Role


@configuration
class Curriculum:
    """Warm-up, then Hard-EM.

    Raises:
        InputError: for shares outside [0, 1], no steps, or another warm-up than the two.
    """

    warm_up: NonNegativeInt = 900  # steps of the autoencoder on fresh data; 0 is naive
    through: Literal["text", "prompt"] = "text"  # plans are made of y by q, or of u
    steps: PositiveInt = 500  # steps of Hard-EM
    warm_up_drop: Share = 0.7  # share of y hidden from the executor in warm-up
    drop: Share = 0.2  # and in Hard-EM
    # Temperature at which the samples of warm-up end; they begin at 1.
    cool: PositiveShare = 0.2
    anneal: Share = 0.6  # share of Hard-EM over which beta goes from 0 to 1; 0 is beta = 1 at once
    grow: Share = 0.0  # share of warm-up over which y grows from a quarter to its full length

    @property
    def total(self) -> int:
        """All steps."""
        return self.warm_up + self.steps

    def beta(self, step: int) -> float:
        """Weight of log p(z | u) in the choice of z*, at a step of Hard-EM."""
        if self.anneal == 0:
            return 1.0
        return min(1.0, step / (self.anneal * self.steps))

    def temperature(self, step: int) -> float:
        """Temperature of the straight-through samples in warm-up: from 1 down to `cool`."""
        return 1.0 - (1.0 - self.cool) * step / max(1, self.warm_up)

    def length(self, step: int, longest: int) -> int:
        """Tokens of y at a step of warm-up, short to long."""
        if self.grow == 0:
            return longest
        share = min(1.0, 0.25 + 0.75 * step / (self.grow * max(1, self.warm_up)))
        return max(1, round(share * longest))


@configuration
class EMSettings:
    """Settings of Hard-EM.

    Raises:
        InputError: for values with which nothing would be learnt.
    """

    samples: PositiveInt = 2048  # examples whose plans are kept
    batch: Annotated[int, Field(ge=2)] = 128
    every: PositiveInt = 3  # M: a plan is chosen anew each M-th time that its example is drawn
    flip: Share = 0.25  # share of a plan's concepts that were edited where it has flipped
    lr: PositiveFloat = 3e-3
    clip: PositiveFloat = 1.0
    usage_bonus: NonNegativeFloat = 1.0
    plan_drop: Share = 0.1  # share of rows that see no plan: the z-free model to compare with
    recogniser: bool = True  # whether q proposes candidates
    beams: NonNegativeInt = 0  # candidates from a diverse beam search of the planner
    seed: int = 0
    held: PositiveInt = 256  # examples held out to be judged by

    def __post_init__(self) -> None:
        if self.samples < self.batch:
            raise ValueError(f"samples >= batch is needed, not {self.samples} and {self.batch}")


class Task(Protocol):
    """A source of prompts and texts."""

    def sample(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Prompts u (n, U), codes where they are known, and texts y (n, L), to learn from.

        Equation: $(u, y) \sim p$
        """

    def held(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""The same, to be judged by.

        Equation: $(u, y) \sim p$
        """


Sampler = Callable[[int], tuple[Tensor, Tensor, Tensor]]
SWEPT = 4096  # plans of an example that a sweep may try


class Falling(Plan):
    """Up over the warm-up, and over the whole run linearly down."""

    def rate_at(self, step: int) -> float:
        """The rate of a step."""
        share = 1 - (1 - self.least) * step / self.steps
        return self.rate * share * min(1.0, (step + 1) / self.warm_up)


@dataclass
class PlannerHistory(History):
    """Also the planner's share of each gradient's norm."""

    planner: list[float] = field(default_factory=list)


def models(
    shape: PlanShape, seed: int, on: Mapping[str, Role]
) -> tuple[Planner, Executor, Recogniser]:
    """The three models of v3, each on its role of a base, or on a small backbone of its own."""
    return (
        Planner(shape, seed, on.get("planner")),
        Executor(shape, seed, on.get("executor")),
        Recogniser(shape, seed, on.get("recogniser")),
    )


class HardEM:
    """Planner, executor and recogniser, trained together on a `PlanTask`."""

    def __init__(
        self,
        task: Task,
        shape: PlanShape,
        settings: EMSettings,
        curriculum: Curriculum,
        on: Mapping[str, Role] | None = None,
    ) -> None:
        self.task, self.shape = task, shape
        self.settings, self.curriculum = settings, curriculum
        seed = settings.seed
        parts = models(shape, seed, on or {})
        self.planner, self.executor, self.recogniser = parts
        self.device = next(self.planner.backbone.parameters()).device  # a shared base's
        self.everything = nn.ModuleList(parts).to(self.device)
        learnt = [p for p in self.everything.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(learnt, weight_decay=0.0)
        asked = self.recogniser if settings.recogniser else None
        self.search = EStep(self.planner, self.executor, asked, settings.beams)
        with seeded(seed, self.device):
            self.u, self.y = self.draw(task.sample, settings.samples)
            self.z = self.search.random_plans(settings.samples)
        with seeded(seed + 77_777, self.device):
            self.held_u, self.held_y = self.draw(task.held, settings.held)
        # Draws of each example since its plan was chosen.
        self.age = torch.full((settings.samples,), settings.every, device=self.device)
        self.chosen = nn.Module()  # what a checkpoint keeps beside weights and optimiser
        self.chosen.register_buffer("z", self.z)
        self.chosen.register_buffer("age", self.age)
        self.last_choice: dict[str, float] = {}  # the monitors of the last E-step
        self.history = PlannerHistory()

    def draw(self, source: Sampler, n: int) -> tuple[Tensor, Tensor]:
        r"""Prompts u (n, U) and texts y (n, L) of a task, on the models' device.

        Equation: $(u, y) \sim p$
        """
        u, _, y = source(n)
        return u.to(self.device), y.to(self.device)

    # -- training -------------------------------------------------------------------------------

    def train(
        self,
        on_step: Callable[[int, int], None] | None = None,
        watch: int = 100,
        checkpoint: Checkpoint | None = None,
    ) -> Trace:
        """Run the whole curriculum, with the monitors every `watch` steps; 0 is never.

        Raises:
            CheckpointError: for a file to resume from that is of another run.
            InputError: for a loss that is no number.
        """
        plan, settings, trace = self.curriculum, self.settings, dict[int, Stats]()

        def after_step(done: int, history: PlannerHistory) -> None:
            clipped = max(1.0, history.grad_norm[-1] / settings.clip)
            history.planner.append(clipped * gradient_norm(self.planner))
            if watch and (done % watch == 0 or done == plan.total):
                beta = 0.0 if done <= plan.warm_up else plan.beta(done - 1 - plan.warm_up)
                trace[done] = self.observe(done / plan.total, beta)
            if on_step is not None:
                on_step(done, plan.total)

        self.history = PlannerHistory()
        fit(
            self.loss,
            self.optimiser,
            Falling(plan.total, settings.lr, warm_up=50, clip=settings.clip, seed=settings.seed),
            self.history,
            module=self.everything,
            on_step=after_step,
            checkpoint=checkpoint and checkpoint.of({"chosen": self.chosen}),
        )
        return trace

    def loss(self, step: int) -> Tensor:
        r"""The loss of a step's phase: scalar nats.

        Equation: $L \in \{L_{\mathrm{warm\ up}}, L_{\mathrm{EM}}\}$
        """
        warm_up = self.curriculum.warm_up
        return self.warm_up_loss(step) if step < warm_up else self.em_loss(step - warm_up)

    def em_loss(self, step: int) -> Tensor:
        r"""An E-step where it is due, then the three losses on z*: a scalar, nats.

        A mean over the batch; the last term with `recogniser` only.

        Equation: $L = -\log p(y \mid z^*) - \log p(z^* \mid u)
        - \operatorname{mean}_{k, s} \log q_{ks}(z^*_{ks} \mid y)$
        """
        settings, plan = self.settings, self.curriculum
        index = torch.randperm(settings.samples, device=self.device)[: settings.batch]
        u, y = self.u[index], self.y[index]
        self.age[index] += 1
        due = self.age[index] >= settings.every
        if step == 0 and settings.recogniser:
            with torch.no_grad():
                self.z[:] = self.recogniser.plans(self.y)
        if bool(due.any()):
            rows = index[due]
            choice = self.search.choose(u[due], y[due], self.z[rows], plan.beta(step))
            edits = edited(choice.z, self.z[rows], self.shape.eos)  # (rows,)
            self.last_choice = {
                "margin": float(choice.margin.mean()),
                "staleness": float((choice.score - choice.old).mean()),
                "flips": float((edits > settings.flip).float().mean()),
            }
            self.z[rows] = choice.z
            self.age[rows] = 0
        z = self.z[index]
        ids = z[:, :, :-1]
        nll = self.executor.token_nll(self.executor.embed(ids), self.seen(ids), y, plan.drop)
        loss = nll.sum(1).mean() + self.planner.loss(u, z)
        if settings.recogniser:
            logits = self.recogniser.logits(y)
            loss = loss + F.cross_entropy(logits.flatten(0, 2), ids.flatten())
        return loss

    # -- the warm-up: autoencoders on fresh data, with part of y hidden from the executor ---------

    def warm_up_loss(self, step: int) -> Tensor:
        r"""An autoencoder's loss on fresh data (u, y), through the text or the prompt: a scalar.

        Equation: $L \in \{L_{\mathrm{text}}, L_{\mathrm{prompt}}\}$
        """
        u, y = self.draw(self.task.sample, self.settings.batch)
        through_text = self.curriculum.through == "text"
        return (self.through_text if through_text else self.through_prompt)(u, y, step)

    def through_text(self, u: Tensor, y: Tensor, step: int) -> Tensor:
        r"""y (B, L) -> q -> straight-through z -> y; later the planner learns q's plans from u.

        q is the recogniser's softmax, p the same with noise and temperature, z its argmax.

        Equation: $L = -\log p(y \mid e) - \lambda\, \mathrm{usage}(q) - \log p(z \mid u), \quad
        e = (\mathrm{onehot}_z + p - \mathrm{sg}(p)) E$
        """
        logits = self.recogniser.logits(y)[..., :-1]  # every slot is used
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        # In this order, not by kit's `straight_through`: training is chaotic in the last digit.
        onehot = F.one_hot(ids, self.shape.codes).to(p) + p - p.detach()
        loss = self.rewritten(onehot, ids, y, step) - self.settings.usage_bonus * usage(logits)
        if step < self.curriculum.warm_up // 2:  # the codes still move too much to be learnt
            return loss
        return loss + self.planner.loss(u, close(ids, self.shape.eos))

    def through_prompt(self, u: Tensor, y: Tensor, step: int) -> Tensor:
        r"""u -> planner -> soft z -> y; q learns the planner's plans.

        What u cannot foretell has no way into z. p is the planner's softmax over the codes c with
        noise and temperature, given q's plan for the slots before; z its argmax. A straight-through
        z learns more slowly here. The planner uses every slot, then ends:

        Equation: $L = -\log p(y \mid pE) - \lambda\, \mathrm{usage}(p)
        - \sum_{ks} \log q_{ks}(z_{ks} \mid y)
        - \sum_k (\log p(\mathrm{EOS}_{k, S + 1} \mid u)
        + \sum_{s \le S} \log (1 - p(\mathrm{EOS}_{ks} \mid u)))$
        """
        guesses = self.recogniser.logits(y)[..., :-1].log_softmax(-1)
        logits = self.planner.logits(u, close(guesses.argmax(-1), self.shape.eos))
        logits = at_least_single(logits)
        # EOS against all codes together, (B, types, slots + 1): log p(EOS) = logsigmoid(lead).
        lead = logits[..., -1] - logits[..., :-1].logsumexp(-1)
        logits = logits[:, :, :-1, :-1]
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        loss = self.rewritten(p, ids, y, step) - self.settings.usage_bonus * usage(logits)
        guessed = guesses.gather(-1, ids[..., None])[..., 0].sum((1, 2)).mean()
        length = F.logsigmoid(lead[..., -1]) + F.logsigmoid(-lead[..., :-1]).sum(-1)  # (B, types)
        return loss - guessed - length.sum(1).mean()

    def relaxed(self, logits: Tensor, step: int) -> Tensor:
        r"""A relaxed draw of codes, the sharper the later: (.., codes) logits -> (.., codes).

        Equation: $p = \mathrm{softmax}((\mathrm{logits} + g) / \tau), \quad
        g \sim \mathrm{Gumbel}$
        """
        noisy = logits + gumbel(logits)
        return (noisy / self.curriculum.temperature(step)).softmax(-1)

    def rewritten(self, weights: Tensor, ids: Tensor, y: Tensor, step: int) -> Tensor:
        r"""-log p(y | e) of fresh texts y (B, L), nats a text, part of y hidden.

        From weights w (B, types, slots, codes) over concepts, and the ids (B, types, slots) that
        they stand for.

        Equation: $-\operatorname{mean}_b \sum_t \log p(y_{bt} \mid w_b E, y_{b, < t})$
        """
        plan, e = self.curriculum, self.executor.mixed(weights)
        length = plan.length(step, y.shape[1])
        nll = self.executor.token_nll(e, self.seen(ids), y[:, :length], plan.warm_up_drop)
        return nll.sum(1).mean()

    def seen(self, ids: Tensor) -> Tensor:
        r"""The slots (B, types, slots) that the executor may see: none, for a few rows.

        v is one number a row, drop the settings' `plan_drop`.

        Equation: $\mathrm{used}_{ks} = z_{ks} \ne \mathrm{EOS} \wedge v \ge \mathrm{drop}, \quad
        v \sim \mathrm{Uniform}(0, 1)$
        """
        used = ids != self.shape.eos
        hidden = torch.rand(len(ids), device=ids.device) < self.settings.plan_drop
        return used & ~hidden[:, None, None]

    # -- looking at it --------------------------------------------------------------------------

    @torch.no_grad()
    def best_plans(self, beta: float = 0.0) -> Tensor:
        r"""z* (B, types, slots + 1) of the held-out examples, by an E-step; with a sweep, where
        that is affordable.

        Equation: $z^* = \arg\max_{z \in Z} \log p(y \mid z) + \beta \log p(z \mid u)$
        """
        z = self.planner.sample(self.held_u, 0.0)
        with seeded(self.settings.seed, self.device):
            sweep = self.shape.types * self.shape.slots * self.shape.codes <= SWEPT
            return self.search.choose(self.held_u, self.held_y, z, beta, sweep=sweep).z

    @torch.no_grad()
    def nll(self, z: Tensor) -> float:
        r"""-log p(y | z) of the held-out examples, z (B, types, slots + 1): nats a sequence.

        Equation: $-\operatorname{mean}_b \sum_t \log p(y_{bt} \mid z_b, y_{b, < t})$
        """
        return float(self.executor.nll(z, self.held_y).sum(1).mean())

    @torch.no_grad()
    def price(self, z: Tensor) -> float:
        r"""-S(z) of the held-out examples, nats: what the plan and then the text cost, given u.

        Equation: $-S(z) = -\log p(y \mid z) - \log p(z \mid u) \ge -\log p(y \mid u)$
        """
        return self.nll(z) - float(self.planner.log_prob(self.held_u, z).mean())

    @torch.no_grad()
    def free_nll(self) -> float:
        r"""The same from the executor without any plan.

        Equation: $-\operatorname{mean}_b \sum_t \log p(y_{bt} \mid y_{b, < t})$
        """
        size = (len(self.held_y), self.shape.types, self.shape.slots + 1)
        return self.nll(torch.full(size, self.shape.eos, device=self.device))

    def codes_used(self, z: Tensor) -> list[int]:
        r"""Number of different codes of each type in plans (B, types, slots + 1).

        Equation: $n_k = |\{z_{bks}\} \setminus \{\mathrm{EOS}\}|$
        """
        return [len(set(z[:, k].flatten().tolist()) - {self.shape.eos}) for k in range(z.shape[1])]

    @torch.no_grad()
    def observe(self, progress: float, beta: float = 1.0) -> Stats:
        """All monitors on the held-out examples, with plans chosen as training chooses them."""
        y, L = self.held_y, self.held_y.shape[1]
        z = self.best_plans(beta)
        token = self.executor.nll(z, y)  # (B, L)
        nll, free = float(token.mean()), self.free_nll() / L
        with seeded(0, self.device):
            order = torch.randperm(len(z), device=self.device)
            drawn = self.search.random_plans(len(z))
        used = min(self.codes_used(z)) / min(self.shape.codes, len(z) * self.shape.slots)
        planned = self.planner.logits(self.held_u, z)[:, :, :-1].softmax(-1)
        logits = self.recogniser.logits(y)[..., :-1]
        soft = self.executor.mixed(logits.softmax(-1))
        hard = self.executor.embed(logits.argmax(-1))
        width = 64 if L >= 128 else max(1, L // 4)
        norms = self.history.planner or [math.nan]  # before any step
        return Stats(
            progress=progress,
            shuffled=self.nll(z[order]) / L - nll,
            masked=free - nll,
            random=self.nll(drawn) / L - nll,
            gain=free - nll,
            own=free - self.nll(self.planner.sample(self.held_u, 0.0)) / L,
            entropy=float(entropy(planned).mean()) / math.log(self.shape.codes + 1),
            max_prob=float(planned.amax(-1).mean()),
            agreement=float(F.cosine_similarity(soft, hard, dim=-1).mean()),
            grad_norm=statistics.mean(norms[-5:]),
            grad_median=statistics.median(norms),
            codes=used,
            bucket_width=width,
            buckets=[float(part.mean()) for part in torch.split(token, width, 1)],
            **self.last_choice,
        )


def gradient_norm(module: nn.Module) -> float:
    r"""Euclidean norm of all gradients of a module.

    Equation: $\sqrt{\sum_i \lVert \nabla_{\theta_i} L \rVert^2}$
    """
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    return float(nn.utils.get_total_norm(grads))
