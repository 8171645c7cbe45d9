"""Our own training: heads learn to say beforehand what the frozen model is going to look at.

The frozen model itself is the teacher: how much attention the words that predict the answer pay to
each visual token, in the layer a head stands before and in all that follow. No label is needed, and
no gradient goes through the language model.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.token_pruning.llava import Vision
from methods.token_pruning.loop import BEFORE, Before, embed, first_context, run_layer
from methods.token_pruning.model import Pruner
from methods.token_pruning.stream import IGNORE, Prompt


@dataclass(frozen=True)
class Lesson:
    """What one head said and what it should have: logits and shares, (B, n) each."""

    logits: Tensor
    wanted: Tensor

    def divergence(self) -> Tensor:
        r"""How far the head's shares are from those wanted, mean over B: ().

        Equation: $L = \operatorname{mean}_b \sum_i t_{bi}
            (\log t_{bi} - \log \mathrm{softmax}_i\, l_{bi})$
        """
        said = self.logits.float().log_softmax(-1)
        return F.kl_div(said, self.wanted, reduction="batchmean")

    def agreement(self) -> float:
        """How often the token that is wanted most is the one the head ranks first."""
        return float((self.logits.argmax(-1) == self.wanted.argmax(-1)).float().mean())


def lessons(pruner: Pruner, prompt: Prompt, vision: Vision) -> list[Lesson]:
    r"""One lesson for the merger's scorer, if there is one, and for each head.

    Equation: $t^l_i = \frac{\sum_{l' \ge l} a^{l'}_i}{\sum_j \sum_{l' \ge l} a^{l'}_j}$

    a is `Before.paid` in the unpruned model by the places with a target, or the last one; the
    merger is taught as if it stood at layer 0.
    """
    llava = pruner.llava
    decoder = llava.model.language_model
    seen: dict[int, tuple[Tensor, ...]] = {}  # what each head reads, before its layer
    paid: list[Tensor] = []
    with torch.no_grad():
        stream = embed(llava, prompt, vision, None)
        rotary, mask = decoder.rotary_emb(stream.hidden, stream.positions), stream.bias()
        asking = (stream.targets != IGNORE).float()  # (B, n)
        if not bool(asking.any()):
            asking[:, -1] = 1.0
        for number, layer in enumerate(decoder.layers):
            if str(number) in pruner.heads:
                seen[number] = stream.seen(), *stream.words()
            paid.append(Before(layer, stream, rotary).paid(asking))
            stream.hidden = run_layer(
                layer, stream.hidden, mask, rotary, positions=stream.positions
            )
    found = []
    if pruner.merger is not None:
        context = first_context(llava, prompt, vision, None)
        dtype = pruner.merger.query.weight.dtype
        logits, _ = pruner.merger.score(
            vision.features.to(dtype), context.text.to(dtype), context.asked
        )
        found.append(Lesson(logits, _shares(paid, BEFORE)))
    for number, states in seen.items():
        logits = pruner.heads[str(number)](*states)
        found.append(Lesson(logits, _shares(paid, number)))
    return found


def _shares(paid: list[Tensor], layer: int) -> Tensor:
    total = torch.stack(paid[max(layer, 0) :]).sum(0)  # (B, n)
    return total / total.sum(1, keepdim=True).clamp_min(1e-12)
