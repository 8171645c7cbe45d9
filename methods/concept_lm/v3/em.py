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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.concept_lm.config import ConceptError
from methods.concept_lm.head import entropy
from methods.concept_lm.v3.curriculum import Curriculum
from methods.concept_lm.v3.estep import Choice, EStep
from methods.concept_lm.v3.executor import Executor, Recogniser
from methods.concept_lm.v3.monitors import Stats, Trace
from methods.concept_lm.v3.planner import Planner, PlanShape, close
from methods.concept_lm.v3.role import Backbones
from methods.kit.checkpoint import CheckpointError, load_weights, read_state, save_state, state_of
from methods.kit.noise import gumbel
from methods.kit.seeds import seeded


@dataclass(frozen=True)
class EMSettings:
    """How Hard-EM is run; `naive` turns off all that keeps it from collapsing."""

    samples: int = 2048  # examples whose plans are kept
    batch: int = 128
    every: int = 2  # M: epochs between two choices of an example's plan
    lr: float = 3e-3
    clip: float = 1.0
    usage_bonus: float = 1.0
    plan_drop: float = 0.1  # share of rows that see no plan: the z-free model to compare with
    recogniser: bool = True  # whether q proposes candidates
    seed: int = 0
    held: int = 256  # examples held out to be judged by

    def __post_init__(self) -> None:
        if self.samples < self.batch or self.batch < 2 or self.every < 1 or self.lr <= 0:
            raise ConceptError("samples >= batch >= 2, every >= 1 and lr > 0 are needed")


class Task(Protocol):
    """Where prompts and texts come from."""

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        r"""Prompts u (n, U), codes where they are known, and texts y (n, L), to learn from.

        Equation: $(u, y) \sim p$
        """

    def held(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        r"""The same, to be judged by.

        Equation: $(u, y) \sim p$
        """


NAIVE = EMSettings(usage_bonus=0.0, recogniser=False)
NAIVE_CURRICULUM = Curriculum(warm_up=0, drop=0.0, anneal=0.0)


class HardEM:
    """Planner, executor and recogniser, trained together on a `PlanTask`."""

    def __init__(
        self,
        task: Task,
        shape: PlanShape,
        settings: EMSettings | None = None,
        curriculum: Curriculum | None = None,
        backbones: Backbones | None = None,
    ) -> None:
        self.task, self.shape = task, shape
        self.settings = settings or EMSettings()
        self.curriculum = curriculum or Curriculum()
        seed = self.settings.seed
        on = backbones or Backbones()
        self.planner = Planner(shape, seed, on.planner)
        self.executor = Executor(shape, seed, on.executor)
        self.recogniser = Recogniser(shape, seed, on.recogniser)
        self.everything = nn.ModuleList([self.planner, self.executor, self.recogniser])
        self.generator = torch.Generator().manual_seed(seed)
        self.search = EStep(
            self.planner,
            self.executor,
            self.recogniser if self.settings.recogniser else None,
            self.generator,
        )
        self.u, _, self.y = task.sample(self.settings.samples, self.generator)
        held = torch.Generator().manual_seed(seed + 77_777)
        self.held_u, _, self.held_y = task.held(self.settings.held, held)
        self.z = self.search.random_plans(self.settings.samples)
        self.age = torch.full((self.settings.samples,), self.settings.every)
        self.last: Choice | None = None
        self.flips = math.nan
        self.planner_norms: list[float] = []

    # -- training -------------------------------------------------------------------------------

    def train(
        self,
        on_step: Callable[[int, int], None] | None = None,
        watch: int = 100,
        kept: "Kept | None" = None,
    ) -> Trace:
        """Run the whole curriculum, with the monitors every `watch` steps; 0 is never.

        Raises:
            CheckpointError: for a file to resume from that is of another run.
        """
        plan, settings, trace = self.curriculum, self.settings, Trace()
        parameters = [p for p in self.everything.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(parameters, lr=settings.lr, weight_decay=0.0)
        with seeded(settings.seed):
            for step in range(kept.resume(self, optimiser) if kept else 0, plan.total):
                self.set_rate(optimiser, step)
                warming = step < plan.warm_up
                loss = self.warm_up_loss(step) if warming else self.em_loss(step - plan.warm_up)
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                self.planner_norms.append(gradient_norm(self.planner))
                nn.utils.clip_grad_norm_(parameters, settings.clip)
                optimiser.step()
                if kept and ((step + 1) % kept.every == 0 or step + 1 == plan.total):
                    kept.save(self, optimiser, step + 1)
                if watch and ((step + 1) % watch == 0 or step + 1 == plan.total):
                    trace.steps.append(step + 1)
                    beta = 0.0 if warming else plan.beta(step - plan.warm_up)
                    trace.stats.append(self.observe((step + 1) / plan.total, beta))
                if on_step is not None:
                    on_step(step + 1, plan.total)
        return trace

    def set_rate(self, optimiser: torch.optim.Optimizer, step: int) -> None:
        """Warm up over 50 steps; fall linearly to a tenth over the whole run."""
        share = min(1.0, (step + 1) / 50) * (1 - 0.9 * step / self.curriculum.total)
        for group in optimiser.param_groups:
            group["lr"] = self.settings.lr * share

    def warm_up_loss(self, step: int) -> Tensor:
        r"""An autoencoder's loss on fresh data (u, y): through the text, the prompt, or the ELBO.

        Equation: $L \in \{L_{\mathrm{text}}, L_{\mathrm{prompt}}, L_{\mathrm{ELBO}}\}$
        """
        u, _, y = self.task.sample(self.settings.batch, self.generator)
        through = {
            "text": self.through_text,
            "prompt": self.through_prompt,
            "elbo": self.through_elbo,
        }
        return through[self.curriculum.through](u, y, step)

    def through_text(self, u: Tensor, y: Tensor, step: int) -> Tensor:
        r"""y -> q -> straight-through z -> y; the planner learns q's plans.

        q is the recogniser's softmax, p the same with noise and temperature, z its argmax. The
        last term comes in the second half.

        Equation: $L = -\log p(y \mid e) - \lambda\, \mathrm{usage}(q) - \log p(z \mid u), \quad
        e = (\mathrm{onehot}_z + p - \mathrm{sg}(p)) E$
        """
        logits = self.recogniser.logits(y)[..., :-1]  # every slot is used
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        one = F.one_hot(ids, self.shape.codes).to(p) + p - p.detach()
        loss = self.rewritten(one, ids, y, step) - self.settings.usage_bonus * usage(logits)
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
        ends = logits.softmax(-1)[..., -1]  # (B, types, slots + 1)
        logits = logits[:, :, :-1, :-1]
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        loss = self.rewritten(p, ids, y, step) - self.settings.usage_bonus * usage(logits)
        guessed = guesses.gather(-1, ids[..., None])[..., 0].sum((1, 2)).mean()
        length = ends[..., -1].log() + torch.log1p(-ends[..., :-1]).sum(-1)  # (B, types)
        return loss - guessed - length.sum(1).mean()

    def through_elbo(self, u: Tensor, y: Tensor, step: int) -> Tensor:
        r"""y -> q -> z -> y, q charged for what the planner cannot foretell: ours.

        Through the text the code that q chooses never pays for p(z | u), so it may spend its bits
        on noise. Here the KL acts on q and planner alike, its weight gamma rising over the first
        third. Planner and q are compared slot by slot, given q's draw for the slots before; the
        planner's EOS stands as in `through_prompt`.

        Equation: $L = -\log p(y \mid e) - \lambda\, \mathrm{usage}(q) + \gamma \sum_{ks}
        \mathrm{KL}(q_{ks}(\cdot \mid y) \,\Vert\, p_{ks}(\cdot \mid u)) - \log p(\mathrm{EOS})$
        """
        logits = self.recogniser.logits(y)[..., :-1]
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        one = F.one_hot(ids, self.shape.codes).to(p) + p - p.detach()
        planned = self.planner.logits(u, close(ids, self.shape.eos)).log_softmax(-1)
        q = logits.log_softmax(-1)
        kl = (q.exp() * (q - planned[:, :, :-1, :-1])).sum((1, 2, 3)).mean()
        weight = min(1.0, 3 * (step + 1) / max(1, self.curriculum.warm_up))
        loss = self.rewritten(one, ids, y, step) - self.settings.usage_bonus * usage(logits)
        return loss + weight * kl - planned[:, :, -1, -1].sum(1).mean()

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
        plan, shape = self.curriculum, self.shape
        table = self.executor.concepts.weight.view(shape.types, shape.codes, -1)
        e = torch.einsum("bksc,kcd->bksd", weights, table)
        length = plan.length(step, y.shape[1])
        nll = self.executor.token_nll(e, self.seen(ids), y[:, :length], plan.warm_up_drop)
        return nll.sum(1).mean()

    def seen(self, ids: Tensor) -> Tensor:
        r"""Which slots (B, types, slots) the executor may see: none, for a few rows.

        v is one number a row, drop the settings' `plan_drop`.

        Equation: $\mathrm{used}_{ks} = z_{ks} \ne \mathrm{EOS} \wedge v \ge \mathrm{drop}, \quad
        v \sim \mathrm{Uniform}(0, 1)$
        """
        used = ids != self.shape.eos
        hidden = torch.rand(len(ids)) < self.settings.plan_drop
        return used & ~hidden[:, None, None]

    def em_loss(self, step: int) -> Tensor:
        r"""An E-step where it is due, then the three losses on z*.

        A mean over the batch; the last term with `recogniser` only.

        Equation: $L = -\log p(y \mid z^*) - \log p(z^* \mid u)
        - \operatorname{mean}_{k, s} \log q_{ks}(z^*_{ks} \mid y)$
        """
        settings, plan = self.settings, self.curriculum
        index = torch.randperm(settings.samples, generator=self.generator)[: settings.batch]
        u, y = self.u[index], self.y[index]
        self.age[index] += 1
        due = self.age[index] > settings.every
        if step == 0 and settings.recogniser:
            with torch.no_grad():
                self.z = self.recogniser.plans(self.y)
        if bool(due.any()):
            rows = index[due]
            choice = self.search.choose(u[due], y[due], self.z[rows], plan.beta(step))
            self.flips = float((choice.z != self.z[rows]).flatten(1).any(1).float().mean())
            self.z[rows] = choice.z
            self.age[rows] = 0
            self.last = choice
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
        return self.search.choose(self.held_u, self.held_y, z, beta, sweep=True).z

    @torch.no_grad()
    def nll(self, z: Tensor) -> float:
        r"""-log p(y | z) of the held-out examples, nats a sequence.

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
        return float(self.executor.nll(self.no_plans(), self.held_y).sum(1).mean())

    def no_plans(self) -> Tensor:
        r"""Empty plans (B, types, slots + 1) for the held-out examples.

        Equation: $z_{ks} = \mathrm{EOS}$
        """
        size = (len(self.held_y), self.shape.types, self.shape.slots + 1)
        return torch.full(size, self.shape.eos)

    def codes_used(self, z: Tensor) -> list[int]:
        r"""How many different codes of each type stand in some plans.

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
        order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
        kept = min(self.codes_used(z)) / min(self.shape.codes, len(z))
        planned = self.planner.logits(self.held_u, z)[:, :, :-1].softmax(-1)
        logits = self.recogniser.logits(y)[..., :-1]
        table = self.executor.concepts.weight.view(self.shape.types, self.shape.codes, -1)
        soft = torch.einsum("bksc,kcd->bksd", logits.softmax(-1), table)
        hard = torch.einsum(
            "bksc,kcd->bksd", F.one_hot(logits.argmax(-1), self.shape.codes).to(soft), table
        )
        width = 64 if L >= 128 else max(1, L // 4)
        stats = Stats(
            progress=progress,
            shuffled=self.nll(z[order]) / L - nll,
            masked=free - nll,
            random=self.nll(self.search.random_plans(len(z))) / L - nll,
            gain=free - nll,
            own=free - self.nll(self.planner.sample(self.held_u, 0.0)) / L,
            entropy=float(entropy(planned).mean()) / math.log(self.shape.codes + 1),
            max_prob=float(planned.amax(-1).mean()),
            agreement=float(F.cosine_similarity(soft, hard, dim=-1).mean()),
            grad_norm=statistics.mean(self.planner_norms[-5:]),
            grad_median=statistics.median(self.planner_norms),
            codes=kept,
            bucket_width=width,
            buckets=[float(part.mean()) for part in torch.split(token, width, 1)],
        )
        if self.last is not None:
            stats.margin = float(self.last.margin.mean())
            stats.staleness = float((self.last.score - self.last.old).mean())
            stats.flips = self.flips
        return stats


@dataclass
class Kept:
    """A file to resume a training of v3 from, with what it must agree with."""

    path: Path
    about: dict[str, Any]
    every: int

    def save(self, em: HardEM, optimiser: torch.optim.Optimizer, done: int) -> None:
        """Write weights, plans and the state of all random numbers."""
        state = {
            "about": self.about,
            "done": done,
            "weights": state_of(em.everything),
            "optimiser": optimiser.state_dict(),
            "plans": (em.z, em.age),
            "norms": em.planner_norms,
            "random": (torch.get_rng_state(), em.generator.get_state()),
        }
        save_state(self.path, state)

    def resume(self, em: HardEM, optimiser: torch.optim.Optimizer) -> int:
        """Load what `save` wrote, where it is there; the steps that are done."""
        if not self.path.exists():
            return 0
        state = read_state(self.path)
        if state["about"] != self.about:
            raise CheckpointError(f"{self.path.name} was made with other settings; remove it first")
        load_weights(em.everything, state["weights"], self.path.name)
        optimiser.load_state_dict(state["optimiser"])
        em.z, em.age = state["plans"]
        em.planner_norms = list(state["norms"])
        torch.set_rng_state(state["random"][0])
        em.generator.set_state(state["random"][1])
        return int(state["done"])


def usage(logits: Tensor) -> Tensor:
    r"""How many codes are used, and how surely: (B, types, slots, codes) logits -> nats.

    Bars are means over the batch.

    Equation: $\sum_{k, s} (H(\bar p_{ks}) - \frac{1}{2} \overline{H(p_{ks})}), \quad
    p = \mathrm{softmax}(\mathrm{logits})$
    """
    p = logits.softmax(-1)
    return (entropy(p.mean(0)) - entropy(p).mean(0) / 2).sum()


def gradient_norm(module: nn.Module) -> float:
    r"""Euclidean norm of all gradients of a module.

    Equation: $\sqrt{\sum_i \lVert \nabla_{\theta_i} L \rVert^2}$
    """
    norms = [p.grad.norm() for p in module.parameters() if p.grad is not None]
    return float(torch.stack(norms).norm()) if norms else 0.0
