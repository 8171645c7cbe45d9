"""The warm-up of v3: autoencoders on fresh data, with part of y hidden from the executor."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ...kit.noise import gumbel
from ..head import usage
from .curriculum import Curriculum, EMSettings
from .executor import Executor, Recogniser
from .planner import Planner, PlanShape, close


class Task(Protocol):
    """Where prompts and texts come from."""

    def sample(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Prompts u (n, U), codes where they are known, and texts y (n, L), to learn from.

        Equation: $(u, y) \sim p$
        """

    def held(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""The same, to be judged by.

        Equation: $(u, y) \sim p$
        """


class WarmUp:
    """Planner, executor and recogniser, and the losses from which they begin."""

    task: Task
    shape: PlanShape
    settings: EMSettings
    curriculum: Curriculum
    planner: Planner
    executor: Executor
    recogniser: Recogniser

    def warm_up_loss(self, step: int) -> Tensor:
        r"""An autoencoder's loss on fresh data (u, y): through the text, the prompt, or the ELBO.

        Equation: $L \in \{L_{\mathrm{text}}, L_{\mathrm{prompt}}, L_{\mathrm{ELBO}}\}$
        """
        u, _, y = self.task.sample(self.settings.batch)
        ways = {"text": self.through_text, "prompt": self.through_prompt, "elbo": self.through_elbo}
        return ways[self.curriculum.through](u, y, step)

    def autoencoded(self, y: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""y (B, L) -> q -> straight-through z -> y: the loss, q's logits and z.

        q is the recogniser's softmax, p the same with noise and temperature, z its argmax; logits
        are (B, types, slots, codes), z (B, types, slots).

        Equation: $L = -\log p(y \mid e) - \lambda\, \mathrm{usage}(q), \quad
        e = (\mathrm{onehot}_z + p - \mathrm{sg}(p)) E$
        """
        logits = self.recogniser.logits(y)[..., :-1]  # every slot is used
        p = self.relaxed(logits, step)  # (B, types, slots, codes)
        ids = p.argmax(-1)
        # In this order, not by kit's `straight_through`: training is chaotic in the last digit.
        one = F.one_hot(ids, self.shape.codes).to(p) + p - p.detach()
        bonus = self.settings.usage_bonus * usage(logits)
        return self.rewritten(one, ids, y, step) - bonus, logits, ids

    def through_text(self, u: Tensor, y: Tensor, step: int) -> Tensor:
        r"""The autoencoder's loss of u (B, U) and y (B, L); later the planner learns q's plans.

        Equation: $L = L_{\mathrm{auto}} - \log p(z \mid u)$
        """
        loss, _, ids = self.autoencoded(y, step)
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
        r"""y (B, L) -> q -> z -> y, q charged for what u (B, U) cannot foretell: a scalar, ours.

        Through the text the code that q chooses never pays for p(z | u), so it may spend its bits
        on noise. Here a KL acts on q, its weight gamma rising over the warm-up: at full weight
        before the planner foretells anything, a code costs q as much as it brings, and none is
        used. Planner and q are compared slot by slot, given q's draw for the slots before; the
        planner's EOS stands as in `through_prompt`.

        Equation: $L = L_{\mathrm{auto}} + \gamma \sum_{ks}
        \mathrm{KL}(q_{ks}(\cdot \mid y) \,\Vert\, \mathrm{sg}(p_{ks}(\cdot \mid u)))
        - \sum_{ks} \mathrm{sg}(q_{ks}) \cdot \log p_{ks} - \log p(\mathrm{EOS})$
        """
        loss, logits, ids = self.autoencoded(y, step)
        planned = self.planner.logits(u, close(ids, self.shape.eos)).log_softmax(-1)
        q, p = logits.log_softmax(-1), planned[:, :, :-1, :-1]
        kl = (q.exp() * (q - p.detach())).sum((1, 2, 3)).mean()
        learnt = -(q.detach().exp() * p).sum((1, 2, 3)).mean()
        weight = (step + 1) / self.curriculum.warm_up
        return loss + weight * kl + learnt - planned[:, :, -1, -1].sum(1).mean()

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
        r"""Which slots (B, types, slots) the executor may see: none, for a few rows.

        v is one number a row, drop the settings' `plan_drop`.

        Equation: $\mathrm{used}_{ks} = z_{ks} \ne \mathrm{EOS} \wedge v \ge \mathrm{drop}, \quad
        v \sim \mathrm{Uniform}(0, 1)$
        """
        used = ids != self.shape.eos
        hidden = torch.rand(len(ids)) < self.settings.plan_drop
        return used & ~hidden[:, None, None]
