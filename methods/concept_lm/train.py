"""One training loop for every model here, so that all models compared see the same data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ..kit.checkpoint import Checkpoint
from ..kit.corpus import Corpus
from ..kit.training import History, Plan, fit
from .core import Codes, ConceptOutput
from .model import ConceptLM, token_nll


@dataclass
class OnText:
    """A model on batches of text: of a step's by seed and step alone, so alike for all models.

    Controls force what v2 does: no `concepts` at all, or `codes` of their own.
    """

    model: Any  # a ConceptLM, or a Qwen with adapters or without
    corpus: Corpus
    rows: int
    length: int
    seed: int
    concepts: bool = field(default=True, kw_only=True)
    codes: Codes | None = field(default=None, kw_only=True)

    def batch(self, step: int) -> Tensor:
        r"""The token ids of a step, (rows, length), where the model is.

        Equation: $x = \mathrm{batch}(\mathrm{seed}, i)$
        """
        x = self.corpus.batch(step, self.rows, self.length, self.seed)
        return x.to(next(self.model.parameters()).device)

    def run(
        self, x: Tensor, noise: Literal["draw"] | None = None, codes: Codes | None = None
    ) -> ConceptOutput:
        r"""A packed pass over (B, T), `ConceptLM.forward`, with what is forced.

        Equation: $\mathrm{logits} = \mathrm{ConceptLM}(x), \quad c_t = 0
        \;\mathrm{without\ concepts}$
        """
        none = None if self.concepts else torch.zeros_like(x, dtype=torch.bool)
        codes = self.codes if codes is None else codes
        output: ConceptOutput = self.model(x, noise=noise, codes=codes, is_concept=none)
        return output

    def training_loss(self, step: int) -> Tensor:
        r"""Next-token cross entropy of a step's batch, and what v2 adds to it: scalar nats.

        The last two terms are those of `ConceptLM.loss`; a plain Qwen has neither.

        Equation: $L = -\operatorname{mean}_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})
        - \lambda U + L_{rule}$
        """
        x = self.batch(step)
        if not isinstance(self.model, ConceptLM):
            return token_nll(self.model(input_ids=x, use_cache=False).logits, x).mean()
        output = self.run(x, "draw")
        self.model.observe(output)
        return self.model.loss(output, x)

    def settle(self) -> None:
        """Set the evaluation threshold for the weights as they are now."""
        if isinstance(self.model, ConceptLM):
            self.model.settle([self.batch(i) for i in range(8)])


def train(
    learner: OnText,
    plan: Plan,
    *,
    on_step: Callable[[int, History], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> History:
    r"""Train to the end of the plan, from its beginning or from a checkpoint, and settle.

    Equation: $\theta \leftarrow \mathrm{AdamW}(\theta, \, g
    \min(1, \mathrm{clip} / \lVert g \rVert)), \quad g = \nabla_\theta L_i$

    Args:
        learner: the model with its data.
        plan: steps, rates, seed.
        on_step: called with the steps done and the history so far.
        checkpoint: where to resume from, when it is there, and to write, with what must agree
            beside the plan, such as the model's configuration.

    Raises:
        CheckpointError: for a checkpoint of another version or another model.
        InputError: for a loss that is no number.
    """
    module = learner.model
    learnt = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(learnt, betas=(0.9, 0.95), weight_decay=0.0)
    loss, history = learner.training_loss, History()
    fit(loss, optimiser, plan, history, module=module, on_step=on_step, checkpoint=checkpoint)
    learner.settle()
    return history
