"""The merger, the heads, and the loop in which tokens leave: 576 become 288, then fewer.

    s = score(V);  C = V[top-M(s + Gumbel)];  A = softmax_j(W_q V (W_k C)^T / (sqrt(d) tau) + s_j)
    merged = (A / column sums)^T V                         before the language model
    l = head(h, question);  keep the highest l             before some of its layers

In training nothing leaves: log m, m = softmax(([0, l] + Gumbel) / tau)[1], is a bias on the keys,
which at m -> 0 equals dropping. `model` trains both stages, and has the source's forms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from transformers import DynamicCache

from ..errors import InputError
from ..kit import noise as kit
from ..kit.rows import take, wide
from .choice import BEFORE, Before, Stage, check_stages, first_context, top
from .llava import Vision, encode
from .stream import Cache, Prompt, Reading, embed, images_of, is_visual, run_layer, tokens_of


def straight_through(scores: Tensor, k: int, tau: float) -> tuple[Tensor, Tensor]:
    r"""Places of the k highest of scores (B, n), (B, k) rising, and their mask (B, n) of 0 and 1.

    The mask has the gradient of a relaxed membership (Gumbel-top-k: Kool et al., arXiv:1903.06059).

    Equation: $\mathrm{mask} = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$
    """
    index = top(scores, k)  # (B, k)
    hard = torch.zeros_like(scores).scatter(1, index, 1.0)  # (B, n)
    return index, kit.straight_through(hard, log_membership(scores, k, tau).exp())


def log_membership(scores: Tensor, k: int, tau: float) -> Tensor:
    r"""The log of the relaxed membership of the k highest: (B, n) -> (B, n).

    Theta stands midway between the k-th and the next score.

    Equation: $\log \sigma \left( \frac{s_i - \theta}{\tau} \right)$
    """
    ranked = scores.detach().sort(dim=-1, descending=True).values  # (B, n)
    theta = (ranked[:, k - 1] + ranked[:, min(k, scores.shape[1] - 1)]) / 2  # (B,)
    return F.logsigmoid((scores - theta[:, None]) / tau)


def soft_gate(logits: Tensor, tau: float, noisy: bool) -> Tensor:
    r"""log m of logits l (B, n), with Gumbel noise in training: a bias on the keys, (B, n).

    Equation: $m = \mathrm{softmax} \left( \frac{[0, l] + g}{\tau} \right)_1$
    """
    pair = torch.stack((torch.zeros_like(logits), logits), -1)  # (B, n, 2)
    pair = pair + kit.gumbel(pair) if noisy else pair  # (B, n, 2)
    return F.log_softmax(pair / tau, dim=-1)[..., 1]


def score_head(d: int) -> nn.Sequential:
    """d -> d / 2 -> 1, the source's scorer of both question-aware parts."""
    return nn.Sequential(nn.Linear(d, max(1, d // 2)), nn.ReLU(), nn.Linear(max(1, d // 2), 1))


def attend(attention: nn.MultiheadAttention, visual: Tensor, text: Tensor, valid: Tensor) -> Tensor:
    r"""Patches (B, n, d) read the question (B, t, d) where it is `valid` (B, t): (B, n, d).

    Equation: $y_i = W_o \left[ \sum_{j\,\mathrm{valid}} p^h_{ij} W^h_v t_j \right]_h, \quad
    p^h_i = \mathrm{softmax}_{j\,\mathrm{valid}} \frac{W^h_q x_i \cdot W^h_k t_j}{\sqrt{d / H}}$
    """
    read: Tensor = attention(visual, text, text, key_padding_mask=~valid, need_weights=False)[0]
    return read


@dataclass(frozen=True)
class Merged:
    """The output of a merger; in training all n tokens are there."""

    tokens: Tensor  # (B, M, d_vision)
    index: Tensor  # (B, M) rising places of the centres
    weights: Tensor  # (B, n, M) how much of each source is in each token; over n 1
    gate: Tensor  # (B, M) bias on the keys: 0, with the gradient of the log of the choice
    scores: Tensor  # (B, n)


class Merger(nn.Module):
    """Stage 1: choice of centres, and aggregation around them. Subclasses score and embed."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(d, d), nn.Linear(d, d)
        # A token starts nearest to itself, which random maps do not give.
        nn.init.orthogonal_(self.query.weight, gain=4.0)
        self.key.weight.data.copy_(self.query.weight.data)
        for each in (self.query, self.key):
            nn.init.zeros_(each.bias)

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""Scores (B, n) and what likeness is measured on (B, n, d), of V (B, n, d_vision).

        The question is (B, t, d_text); padding in it, where not `valid` (B, t), counts for nothing.

        Equation: $s_i = f(v_i, T) \in \mathbb{R}, \quad u_i = g(v_i) \in \mathbb{R}^d$
        """
        raise NotImplementedError

    def forward(
        self, V: Tensor, text: Tensor, valid: Tensor, keep: int, *, tau: float, noise: bool = False
    ) -> Merged:
        r"""V (B, n, d_vision) to M = `keep` tokens; all n leave as they came. `text` as in `score`.

        With `noise`, in training, what is not chosen stays where it is, its key gated by the log of
        its relaxed membership: a token that is gone could not teach the scorer that it was needed.

        Equation: $A = \mathrm{softmax}_j \left(
            \frac{W_q u_i \cdot W_k u_{c_j}}{\sqrt d \tau} + s_{c_j} \right)$
        Equation: $o_j = \frac{\sum_i A_{ij} v_i}{\sum_i A_{ij}}$

        Raises:
            InputError: for M outside 1 to n, or scores that are no numbers.
        """
        given, dtype = V, self.query.weight.dtype  # the model may be of half precision
        V, text = V.to(dtype), text.to(dtype)
        s, u = self.score(V, text, valid)  # (B, n), (B, n, d)
        every = torch.arange(V.shape[1], device=V.device).expand(V.shape[:2])  # (B, n)
        if keep == V.shape[1]:
            same = torch.eye(keep, dtype=dtype, device=V.device).expand(len(V), -1, -1)
            return Merged(given, every, same, torch.zeros_like(s), s)
        noisy = s + kit.gumbel(s) if noise else s  # (B, n)
        index, mask = straight_through(noisy, keep, tau)  # (B, M), (B, n)
        u = F.layer_norm(u, u.shape[-1:])  # (B, n, d), else all go to the longest centre
        likeness = self.query(u) @ self.key(take(u, index)).mT  # (B, n, M)
        A = (likeness / (u.shape[-1] ** 0.5 * tau) + s.gather(1, index)[:, None]).softmax(-1)
        A = A / A.sum(dim=1, keepdim=True).clamp_min(1e-9)  # (B, n, M)
        tokens, gate = (A.mT @ V).to(given.dtype), mask.gather(1, index).log()
        if not noise:
            return Merged(tokens, index, A, gate, s)
        gates = log_membership(noisy, keep, tau).scatter(1, index, gate)  # (B, n)
        return Merged(given.scatter(1, wide(index, V), tokens), every, A, gates, s)


class LayerHead(nn.Module):
    """Stage 2: which visual tokens go on before a layer, given the question.

    States are brought to one length first, a word's being a fraction of a patch's. Both maps start
    equal, and so do queries and keys: a patch starts by reading the words that are most like it.
    """

    def __init__(self, d_model: int, d: int, num_heads: int) -> None:
        super().__init__()
        self.vision, self.text = nn.Linear(d_model, d), nn.Linear(d_model, d)
        self.attention = nn.MultiheadAttention(d, num_heads, batch_first=True)
        self.scorer = score_head(d)
        nn.init.orthogonal_(self.vision.weight)
        self.text.load_state_dict(self.vision.state_dict())
        with torch.no_grad():
            query, key, _ = self.attention.in_proj_weight.chunk(3)
            nn.init.orthogonal_(query, gain=2.0)
            key.copy_(query)

    def forward(self, visual: Tensor, text: Tensor, valid: Tensor) -> Tensor:
        r"""l (B, n) of states (B, n, d_model) and words (B, t, d_model); above 0 is rather kept.

        Equation: $l_i = \mathrm{MLP}(x_i + \mathrm{MHA}(x_i, W_t \hat h^{text} + b_t)), \quad
        x_i = W_v \hat h_i + b_v, \quad \hat h = \mathrm{RMSNorm}(h)$
        """
        dtype = self.vision.weight.dtype  # the model may be of half precision
        visual, text = (F.rms_norm(h.to(dtype), h.shape[-1:]) for h in (visual, text))
        inner = self.vision(visual)  # (B, n, d)
        logits: Tensor = self.scorer(inner + attend(self.attention, inner, self.text(text), valid))
        return logits[..., 0]


@torch.no_grad()
def read(
    llava: Any,
    prompt: Prompt,
    stages: Sequence[Stage] = (),
    *,
    cached: bool = False,
    generator: Generator | None = None,
    vision: Vision | None = None,
) -> Reading:
    """Read a prompt, rows padded on the left, layer by layer, with tokens leaving between them.

    transformers builds one mask for all layers and takes gapped positions for packed sequences.
    Here states, positions and flags are gathered together, rotary embeddings follow the original
    positions, and each layer's cache is as long as what it saw. Without stages, or without an
    image, this is the plain model. `cached` keeps keys and values; `vision` is what the tower saw.

    Raises:
        InputError: for stages out of order, layers that do not exist, budgets above what is
            there, and prompts or images that do not fit the model.
    """
    images = images_of(llava, prompt)
    by_layer = check_stages(llava, stages, tokens_of(llava, prompt)) if images else {}
    if not bool(prompt.real()[:, -1].all()):
        side = 'pad on the left (tokenizer.padding_side = "left")'
        raise InputError(f"a row ends with padding, not with the word to continue from; {side}")
    if not images:
        vision = None
    elif prompt.embeds is not None:
        seen = is_visual(llava, prompt).nonzero()[:, 1].view(len(prompt.ids), -1)
        vision = Vision(take(prompt.embeds, seen))
    elif vision is None:
        vision = encode(llava, prompt.pixels)
    first, entered, kept = by_layer.pop(BEFORE, None), None, dict[int, Tensor]()
    if first is not None and vision is not None:
        context = first_context(llava, prompt, vision, generator)
        entered = first.selector.enter(context, first.keep)
        kept[BEFORE] = entered.index
    decoder, stream = llava.model.language_model, embed(llava, prompt, vision, entered)
    cache = Cache(DynamicCache(), stream.following())
    rotary, mask = stream.around(decoder)
    counts, previous = list[int](), None
    for number, layer in enumerate(decoder.layers):
        stage, index = by_layer.get(number), None
        if stage is not None and vision is not None:
            context = Before(layer, stream, rotary).context(vision, prompt, generator, previous)
            index = stage.selector.select(context, stage.keep * images)
            kept[number] = context.patches.gather(1, index)
            if not stage.late:
                stream = stream.keep_visual(index)
                rotary, mask = stream.around(decoder)
        counts.append(stream.hidden.shape[1])
        previous = Before(layer, stream, rotary)
        hidden = run_layer(layer, stream.hidden, mask, rotary, cache if cached else None)
        if cached:
            cache.bias.append(stream.on_keys())
        stream = stream.after(number, hidden)
        if stage is not None and stage.late and index is not None:
            stream = stream.keep_visual(index)
            rotary, mask = stream.around(decoder)
    last = decoder.norm(stream.hidden[:, -1:])
    return Reading(llava.lm_head(last), counts, kept, stream.positions, cache, entered)
