"""Hard-EM: choose each example's plan, then train on the choice.

    z* = argmax over candidates of  log p(y | z) + beta log p(z | u)          (E)
    executor: -log p(y | z*)    planner: -log p(z* | u)    recogniser: CE(q(y), z*)   (M)

S(z) = log p(y | z) + log p(z | u) <= log p(y | u): a plan is worth what u can foretell of y, and
information that u cannot predict never helps.

Naive Hard-EM starts from nothing: the executor ignores plans that mean nothing, and then no plan is
better than another. What decides is the warm-up: an autoencoder on fresh data, with part of y
hidden from the executor and a bonus for using many codes surely. Through the text,
y -> q -> z -> y, z learns to carry y, foretold or not; through the prompt, u -> planner -> z -> y,
it carries what u foretells; by the ELBO q pays for what the planner cannot foretell.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kit.checkpoint import Checkpoint
from ...kit.seeds import seeded
from ...kit.training import History, Plan, fit
from ..head import entropy
from .curriculum import Curriculum, EMSettings
from .estep import EStep
from .executor import Executor, Recogniser
from .monitors import Stats, Trace
from .planner import Planner, PlanShape
from .role import Role
from .warmup import Task, WarmUp


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


class HardEM(WarmUp):
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
        self.everything = nn.ModuleList(parts)
        learnt = [p for p in self.everything.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(learnt, weight_decay=0.0)
        asked = self.recogniser if settings.recogniser else None
        self.search = EStep(self.planner, self.executor, asked, settings.beams)
        with seeded(seed):
            self.u, _, self.y = task.sample(settings.samples)
            self.z = self.search.random_plans(settings.samples)
        with seeded(seed + 77_777):
            self.held_u, _, self.held_y = task.held(settings.held)
        self.age = torch.full((settings.samples,), settings.every)
        self.chosen = nn.Module()  # what a checkpoint keeps beside weights and optimiser
        self.chosen.register_buffer("z", self.z)
        self.chosen.register_buffer("age", self.age)
        self.last_choice: dict[str, float] = {}  # the monitors of the last E-step
        self.history = PlannerHistory()

    # -- training -------------------------------------------------------------------------------

    def train(
        self,
        on_step: Callable[[int, int], None] | None = None,
        watch: int = 100,
        kept: Checkpoint | None = None,
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
            checkpoint=kept and kept.of({"chosen": self.chosen}),
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
        index = torch.randperm(settings.samples)[: settings.batch]
        u, y = self.u[index], self.y[index]
        self.age[index] += 1
        due = self.age[index] > settings.every
        if step == 0 and settings.recogniser:
            with torch.no_grad():
                self.z[:] = self.recogniser.plans(self.y)
        if bool(due.any()):
            rows = index[due]
            choice = self.search.choose(u[due], y[due], self.z[rows], plan.beta(step))
            self.last_choice = {
                "margin": float(choice.margin.mean()),
                "staleness": float((choice.score - choice.old).mean()),
                "flips": float((choice.z != self.z[rows]).flatten(1).any(1).float().mean()),
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

    # -- looking at it --------------------------------------------------------------------------

    @torch.no_grad()
    def best_plans(self, beta: float = 0.0) -> Tensor:
        r"""z* (B, types, slots + 1) of the held-out examples, by an E-step with a sweep.

        Equation: $z^* = \arg\max_{z \in Z} \log p(y \mid z) + \beta \log p(z \mid u)$
        """
        z = self.planner.sample(self.held_u, 0.0)
        with seeded(self.settings.seed):
            return self.search.choose(self.held_u, self.held_y, z, beta, sweep=True).z

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
        return self.nll(torch.full(size, self.shape.eos))

    def codes_used(self, z: Tensor) -> list[int]:
        r"""How many different codes of each type stand in some plans (B, types, slots + 1).

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
        with seeded(0):
            order, drawn = torch.randperm(len(z)), self.search.random_plans(len(z))
        kept = min(self.codes_used(z)) / min(self.shape.codes, len(z))
        planned = self.planner.logits(self.held_u, z)[:, :, :-1].softmax(-1)
        logits = self.recogniser.logits(y)[..., :-1]
        soft = self.executor.mixed(logits.softmax(-1))
        hard = self.executor.embed(logits.argmax(-1))
        width = 64 if L >= 128 else max(1, L // 4)
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
            grad_norm=statistics.mean(self.history.planner[-5:]),
            grad_median=statistics.median(self.history.planner),
            codes=kept,
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
