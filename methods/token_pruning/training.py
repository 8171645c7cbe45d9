"""Training: pruner and discriminator in turn, or heads taught by the model's own attention.

    G = w_adv BCE(D(fake), 1) + w_task CE(answer)
        + sum_l l relu(mean m_l - rho_l)^2 / sum_l l + count term
    D = BCE(D(real), 1) + BCE(D(sg(fake)), 0)

`mse` puts feature matching in the place of the adversarial term, `none` nothing.

Taught, heads learn to say beforehand what the frozen model is going to look at, which is ours: how
much attention the words that predict the answer pay to each visual token, in the layer a head
stands before and in all that follow. No label is needed, and no gradient goes through the language
model.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..kit import training as kit
from ..kit.checkpoint import Checkpoint, Part
from ..kit.seeds import seeded
from .choice import BEFORE, Before, first_context
from .config import PruningConfig
from .llava import Vision, encode
from .model import Pruner
from .stream import IGNORE, Prompt, embed, run_layer

SQUASH = 100.0  # hidden states of a large model reach hundreds; tanh(h / 100) bounds them


class Discriminator(nn.Module):
    """A logit for each answer position; its sigmoid is D.

    A layer: tanh(h / 100), d_model -> d with GELU, then a residual d -> d. The layers' features are
    concatenated and go through d -> d -> 1.
    """

    def __init__(self, d_model: int, config: PruningConfig) -> None:
        super().__init__()
        d, layers = config.d_discriminator, len(config.discriminator_layers)
        self.enter = nn.ModuleList(nn.Linear(d_model, d) for _ in range(layers))
        self.residual = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.judge = nn.Sequential(
            nn.Linear(layers * d, d), nn.GELU(), nn.Linear(d, d), nn.GELU(), nn.Linear(d, 1)
        )

    def forward(self, states: list[Tensor]) -> Tensor:
        r"""Hidden states at answer positions, one (B, a, d_model) a layer -> logits (B, a).

        Equation: $x_l = \mathrm{GELU}(W_l \tanh(h_l / 100)), \quad
            D = \sigma(\mathrm{MLP}([x_l + W'_l x_l]_l))$
        """
        seen = []
        for h, enter, residual in zip(states, self.enter, self.residual, strict=True):
            x = F.gelu(enter(torch.tanh(h.float() / SQUASH)))  # the model may be of half precision
            seen.append(x + residual(x))
        return torch.squeeze(self.judge(torch.cat(seen, dim=-1)), -1)


def bce(logits: Tensor, target: float) -> Tensor:
    r"""Binary cross entropy of sigmoid(logits) with one target, mean over logits of any shape: ().

    Equation: $\operatorname{mean}(-y \log \sigma(x) - (1 - y) \log(1 - \sigma(x)))$
    """
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def discriminator_loss(judge: Discriminator, real: list[Tensor], fake: list[Tensor]) -> Tensor:
    r"""D's loss (); neither side's states, (a, d) a layer, get a gradient.

    Equation: $L_D = \mathrm{BCE}(D(\mathrm{real}), 1)
        + \mathrm{BCE}(D(\mathrm{sg}(\mathrm{fake})), 0)$
    """
    right = bce(judge([h.detach() for h in real]), 1.0)
    return right + bce(judge([h.detach() for h in fake]), 0.0)


def sparsity(log_gates: dict[int, Tensor], rho: dict[int, float]) -> Tensor:
    r"""Excess of the share that heads keep, log m (B, n) each: (). Later layers weigh more.

    Equation: $L_s = \frac{\sum_l w_l \max(\bar m_l - \rho_l, 0)^2}{\sum_l w_l}$

    w_l = max(l, 1): a head before layer 0 would otherwise be free to keep everything.
    """
    weights = {layer: max(layer, 1) for layer in log_gates}
    over = {layer: F.relu(gate.exp().mean() - rho[layer]) ** 2 for layer, gate in log_gates.items()}
    total = sum((weights[layer] * square for layer, square in over.items()), torch.zeros(()))
    return total / max(1, sum(weights.values()))


def count_term(scores: Tensor, keep: int) -> Tensor:
    r"""The merger's scores (B, n) should ask for M tokens, not all; the mean over B: ().

    Equation: $L_c = \operatorname{mean}_b \left( \frac{1}{M} \sum_i \sigma(s_{bi}) - 1 \right)^2$
    """
    return ((scores.sigmoid().sum(dim=1) / keep - 1) ** 2).mean()


def matching(real: list[Tensor], fake: list[Tensor]) -> Tensor:
    r"""Mean squared difference of hidden states over the mean square of the real ones, by layer.

    States are (a, d) a layer; the mean over layers is ().

    Equation: $L_m = \operatorname{mean}_l
        \frac{\operatorname{mean} (f_l - r_l)^2}{\operatorname{mean} r_l^2}$
    """
    terms = [
        F.mse_loss(f, r) / r.pow(2).mean().clamp_min(1e-9)
        for r, f in ((r.detach().float(), f.float()) for r, f in zip(real, fake, strict=True))
    ]
    return torch.stack(terms).mean()


def closeness(
    config: PruningConfig, judge: Discriminator | None, real: list[Tensor], fake: list[Tensor]
) -> Tensor:
    r"""The term that pulls pruned hidden states towards unpruned ones, by the configured loss.

    Equation: $w_{adv} \mathrm{BCE}(D(\mathrm{fake}), 1) \;\mathrm{if\ adversarial}, \quad
    w_{adv} L_m \;\mathrm{if\ mse}, \quad 0 \;\mathrm{if\ none}$

    States are (a, d) a layer, the term is ().
    """
    if config.loss == "adversarial" and judge is not None:
        return config.adv_loss_weight * bce(judge(fake), 1.0)
    if config.loss == "mse":
        return config.adv_loss_weight * matching(real, fake)
    return fake[0].new_zeros(())


@dataclass(frozen=True)
class Lesson:
    """The prediction of one head and its target: logits and shares, (B, n) each."""

    logits: Tensor
    target: Tensor

    def divergence(self) -> Tensor:
        r"""Divergence of the head's shares from the target's, mean over B: ().

        Equation: $L = \operatorname{mean}_b \sum_i t_{bi}
            (\log t_{bi} - \log \mathrm{softmax}_i\, l_{bi})$
        """
        log_shares = self.logits.float().log_softmax(-1)
        return F.kl_div(log_shares, self.target, reduction="batchmean")

    def agreement(self) -> float:
        """Share of rows in which the head ranks first the token with the largest share."""
        return float((self.logits.argmax(-1) == self.target.argmax(-1)).float().mean())


def lessons(pruner: Pruner, prompt: Prompt, vision: Vision) -> list[Lesson]:
    r"""One lesson for the merger's scorer, if there is one, and for each head.

    Equation: $t^l_i = \frac{\sum_{l' \ge l} a^{l'}_i}{\sum_j \sum_{l' \ge l} a^{l'}_j}$

    a is `Before.paid` in the unpruned model by the places with a target, or the last one; the
    merger is taught as if it stood at layer 0.
    """
    llava = pruner.llava
    logits: dict[int, Tensor] = {}  # of those who stand before a layer
    if pruner.merger is not None:
        context = first_context(llava, prompt, vision, None)
        dtype = next(pruner.merger.parameters()).dtype
        V, text = vision.features.to(dtype), context.text.to(dtype)
        logits[BEFORE], _ = pruner.merger.score(V, text, context.asked)
    stream = embed(llava, prompt, vision, None)
    asking = (stream.targets != IGNORE).float()  # (B, n)
    if not bool(asking.any()):
        asking[:, -1] = 1.0
    decoder = llava.model.language_model
    rotary, mask = decoder.rotary_emb(stream.hidden, stream.positions), stream.bias()
    paid: list[Tensor] = []
    for number, layer in enumerate(decoder.layers):  # frozen, so that only heads get a graph
        if str(number) in pruner.heads:
            logits[number] = pruner.heads[str(number)](stream.seen(), *stream.words())
        paid.append(Before(layer, stream, rotary).paid(asking))
        stream.hidden = run_layer(layer, stream.hidden, mask, rotary)
    return [Lesson(scored, _shares(paid, number)) for number, scored in logits.items()]


def _shares(paid: list[Tensor], layer: int) -> Tensor:
    total = torch.stack(paid[max(layer, 0) :]).sum(0)  # (B, n)
    return total / total.sum(1, keepdim=True).clamp_min(1e-12)


HALF_SCALE = 1024.0  # of the loss, whose gradients would vanish in float16

Draw = Callable[[int], Prompt]  # the batch of a step


@dataclass
class History(kit.History):
    """Figures of each step beside loss and norm of the gradients.

    Task loss, the term of closeness, D's loss, accuracy and mean m; of teaching by attention the
    divergence stands as `task` and as `accuracy` how often heads rank first what is looked at most.
    """

    task: list[float] = field(default_factory=list)
    close: list[float] = field(default_factory=list)
    judge: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)


class Trainer:
    """Pruner, discriminator and their optimisers: what a step of G is, then one of D.

    Rates and weights stand in the configuration; the discriminator's weights are of the seed.
    """

    def __init__(self, pruner: Pruner, steps: int, seed: int = 0) -> None:
        config = pruner.config
        self.pruner = pruner
        self.plan = kit.Plan(steps, rate=1.0, least=1.0, seed=seed)  # each part has its own rate
        rated = ((pruner.merger, config.merger_lr), (pruner.heads, config.pruner_lr))
        groups = [
            {"params": list(part.parameters()), "speed": rate} for part, rate in rated if part
        ]
        if not groups:
            raise InputError("there is neither merger nor head: nothing to train")
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
        self.saved: dict[str, Part] = {}  # beside pruner and optimiser
        self.judge: Discriminator | None = None
        self.judge_optimiser: torch.optim.Optimizer | None = None
        if config.loss == "adversarial":
            d_model = pruner.llava.config.text_config.hidden_size
            with seeded(seed):
                self.judge = Discriminator(d_model, config)
            self.judge.to(next(pruner.parameters()).device)
            rate, weights = config.discriminator_lr, self.judge.parameters()
            self.judge_optimiser = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
            self.saved = {"judge": self.judge, "judge_optimiser": self.judge_optimiser}
        self.parts: dict[str, Any] = {}  # what G's last loss was made of

    def generator_loss(self, prompt: Prompt, tau: float) -> Tensor:
        r"""G's loss () on a batch; what it is made of is kept in `parts`.

        Equation: $G = w_{task} \mathrm{CE} + w_{adv} \mathrm{BCE}(D(\mathrm{fake}), 1)
            + w_s L_s + w_c L_c$
        """
        config = self.pruner.config
        vision = encode(self.pruner.llava, prompt.pixels)
        if config.loss == "attention":
            return self._taught(prompt, vision)
        soft = self.pruner.soft(prompt, vision, tau, noise=self.pruner.training)
        task = F.cross_entropy(soft.logits.float(), soft.targets)
        real = [] if config.loss == "none" else self.pruner.unpruned(prompt, vision)
        if self.judge is not None:
            self.judge.requires_grad_(False)  # until D's own step
        close = closeness(config, self.judge, real, soft.states)
        loss = config.task_loss_weight * task + close
        if soft.gates:
            gated = next(iter(soft.gates.values())).shape[1]
            budgets = zip(config.pruning_layers, config.keep_tokens, strict=True)
            rho = {layer: keep / gated for layer, keep in budgets}  # what each head should keep
            loss = loss + config.sparsity_weight * sparsity(soft.gates, rho)
        if soft.merged is not None:
            keep = soft.merged.weights.shape[2]
            loss = loss + config.merge_sparsity_weight * count_term(soft.merged.scores, keep)
        self.parts = {
            "task": float(task.detach()),
            "close": float(close.detach()),
            "accuracy": float((soft.logits.argmax(-1) == soft.targets).float().mean()),
            "kept": soft.kept(),
            "real": real,
            "fake": soft.states,
        }
        return loss

    def _taught(self, prompt: Prompt, vision: Vision) -> Tensor:
        r"""Divergence of heads and merger from the model's own attention: ().

        Equation: $L = \frac{1}{n} \sum_l L_l$, one term for each of the n scorers
        """
        taught = lessons(self.pruner, prompt, vision)
        loss = torch.stack([lesson.divergence() for lesson in taught]).mean()
        agreed = sum(lesson.agreement() for lesson in taught) / len(taught)
        self.parts = {"task": float(loss.detach()), "close": 0.0, "accuracy": agreed, "kept": 1.0}
        return loss

    def backward(self, loss: Tensor) -> None:
        r"""Gradients of G's loss (), in the pruner alone.

        Equation: $\mathrm{grad}_\theta = \frac{\partial G}{\partial \theta}$, theta the pruner's
        weights; those of D and of the language model get none.
        """
        half = self.pruner.llava.dtype == torch.float16 and self.pruner.config.loss != "attention"
        scale = HALF_SCALE if half else 1.0
        torch.autograd.backward(scale * loss)
        for p in self.pruner.parameters():
            if p.grad is not None:
                p.grad /= scale

    def judge_gradients(self, judge: Discriminator) -> Tensor:
        r"""Gradients of D's loss, in the discriminator alone: the loss ().

        Equation: $\mathrm{grad}_\phi = \frac{\partial L_D}{\partial \phi}$, phi the discriminator's
        weights; the states it judges, and so the pruner, get none.
        """
        judge.requires_grad_(True).zero_grad(set_to_none=True)
        loss = discriminator_loss(judge, self.parts["real"], self.parts["fake"])
        torch.autograd.backward(loss)
        return loss.detach()

    def end_step(self, step: int, history: History) -> None:
        """D's step, if there is one, neither clipped nor ramped, and the figures of both.

        Raises:
            InputError: for a gradient of G that is no number.
        """
        if not math.isfinite(history.grad_norm[-1]):
            ways = 'load the model in bfloat16, or train with loss="attention"'
            raise InputError(f"a gradient is infinite at step {step - 1}; {ways}")
        self.parts["judge"] = 0.0
        if self.judge is not None and self.judge_optimiser is not None:
            self.parts["judge"] = float(self.judge_gradients(self.judge))
            self.judge_optimiser.step()
        for name in vars(history).keys() & self.parts:
            getattr(history, name).append(self.parts[name])


def train(
    pruner: Pruner,
    draw: Draw,
    steps: int,
    seed: int = 0,
    *,
    on_step: Callable[[int, History], None] = lambda *_: None,
    checkpoint: Checkpoint | None = None,
) -> History:
    """Train so many steps, from the first or from a checkpoint.

    Args:
        pruner: merger and heads; the model they belong to stays as it is.
        draw: the batch of a step.
        steps: in all.
        seed: of each step's noise and of the discriminator.
        on_step: called with the steps done and the history so far.
        checkpoint: where to resume from, when it is there, and to write, with what must agree
            beside configuration and plan.

    Raises:
        CheckpointError: for a checkpoint of another run.
        InputError: for a loss or gradient that is no number.
    """
    trainer = Trainer(pruner, steps, seed)

    def after_step(step: int, history: History) -> None:
        trainer.end_step(step, history)
        on_step(step, history)

    return kit.fit(
        lambda number: trainer.generator_loss(draw(number), pruner.config.tau(number, steps)),
        trainer.optimiser,
        trainer.plan,
        History(),
        module=pruner,
        backward=trainer.backward,
        on_step=after_step,
        checkpoint=checkpoint and checkpoint.of(trainer.saved, config=asdict(pruner.config)),
    )
