"""Slimming and alignment: an image's patches, chosen and merged for a caption, meet its words.

    s = (1 - 2 beta) s_p + beta (s_st + s_dt + 2 s_im)   how much each patch matters     (1, 2, 3)
    D = the K = ceil(rho N) highest                      which patches stay
    tokens = [CLS, sum_i W_ij v_i, extra]                what they are merged into       (4)
    S = alignment(cos(tokens, words))                    how well they match the caption (5)

SEPS, arXiv:2511.01390, with a choice that can be learnt. T captions, B images, N patches, C width,
J aggregated tokens, W words; T is 1 where captions choose alike. `model` has all variants.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kit import noise
from .config import SepsConfig
from .pairs import Output, Prepared, Shares


def mlp(d: int, hidden: int, out: int, *, bias: bool = True) -> nn.Sequential:
    """A map, GELU, and a map whose bias may be left out."""
    return nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, out, bias=bias))


class ScoreMLP(nn.Module):
    """A patch's own significance, whatever the text."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = mlp(dim, dim // 4, 1)

    def forward(self, patches: Tensor) -> Tensor:
        r"""Scores in (0, 1) of patches (B, N, C): (B, N).

        Equation 1: $s_p = \sigma(\mathrm{MLP}(v))$
        """
        return torch.sigmoid(self.net(patches)[..., 0])


@torch.no_grad()
def guide(v: Tensor, E: Tensor, *, cosine: bool = True) -> Tensor:
    r"""Similarity of patches (B, N, C) to texts (T, 1, C) or to each image's (1, B, C): (T, B, N).

    Without gradient; the cosine, or the source's product, by which a long patch has more of all.

    Equation 2: $s = \frac{v \cdot E}{\lVert v \rVert \lVert E \rVert}
    \;\mathrm{or}\; \frac{v \cdot E}{C}$
    """
    v, E = (F.normalize(v, dim=-1), F.normalize(E, dim=-1)) if cosine else (v, E / E.shape[-1])
    return torch.einsum("bnc,tbc->tbn", v, E)


def minmax(scores: Tensor) -> Tensor:
    r"""The last dimension of (..., N) stretched to 0 .. 1; a constant one becomes 0.

    Equation 2: $s \mapsto \frac{s - \min s}{\max s - \min s}$
    """
    low, high = scores.amin(-1, keepdim=True), scores.amax(-1, keepdim=True)
    return (scores - low) / (high - low).clamp_min(torch.finfo(scores.dtype).eps)


def top_mask(scores: Tensor, kept: int) -> Tensor:
    r"""1 for the `kept` highest scores (..., N) of a row, else 0; exactly `kept`, ties or not.

    Equation: $K = \lceil \rho N \rceil$
    """
    index = scores.topk(kept, dim=-1, sorted=False).indices  # (..., K)
    return torch.zeros_like(scores).scatter_(-1, index, 1.0)


class Aggregation(nn.Module):
    """Strength with which each aggregated token asks for each patch, from the patch alone."""

    def __init__(self, dim: int, tokens: int, *, bias: bool = True) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(dim), *mlp(dim, int(0.2 * dim), tokens, bias=bias))

    def forward(self, patches: Tensor, scale: Tensor) -> Tensor:
        r"""Strengths of patches (B, N, C) in J aggregated tokens, before the softmax: (B, N, J).

        Equation 4: $e_{ij} = \exp(\mathrm{scale} \cdot \mathrm{MLP}(v_i)_j)$
        """
        logits = scale * self.net(patches)  # (B, N, J)
        # The weakest are no zeros: those that stay may all be weak beside one that does not.
        least = math.log(torch.finfo(logits.dtype).tiny) + 1
        return torch.exp((logits - logits.amax(1, keepdim=True)).clamp_min(least))


def share(strengths: Tensor, gate: Tensor, scores: Tensor) -> Shares:
    r"""Weights by which patches are merged: strengths (B, N, J), gate and scores (T, B, N).

    The gate (1 stays) is a factor of the softmax, so that its gradient is there also where it is 0.
    There it is bounded: a dropped patch pulls at most as strongly as all that stay together, where
    the ratio of strengths alone may be 1e30. The dropped are weighed by their scores.

    Equation 4: $W_{ij} = \frac{D_i e_{ij}}{\sum_l D_l e_{lj}}$
    """
    total = torch.einsum("tbn,bnj->tbj", gate, strengths).detach()  # (T, B, J)
    kept = strengths.mT / total.clamp_min(torch.finfo(total.dtype).tiny)[..., None]  # (T, B, J, N)
    if torch.is_grad_enabled():  # the bound, then the derivative of the sum, which is 1 already
        kept = kept.clamp_max(1.0) * gate[:, :, None]  # (T, B, J, N)
        kept = kept / kept.sum(-1, keepdim=True)
    else:
        kept = kept * gate[:, :, None]
    dropped = (1 - gate) * scores.exp()  # (T, B, N)
    # A score is -2 at least, so that one dropped patch alone makes e^-2: 0.1 means none was.
    dropped = dropped / dropped.sum(-1, keepdim=True).clamp_min(0.1)  # (T, B, N)
    return Shares(kept, dropped)


def merge(patches: Tensor, branches: list[Shares]) -> list[Tensor]:
    r"""Aggregated tokens (T, B, J, C) and the extra one (T, B, 1, C) of patches (B, N, C).

    The branches are summed before they meet the patches: one product instead of one a branch.

    Equation 4: $\hat v_j = \sum_i (W^s_{ij} + W^d_{ij}) v_i$
    """
    kept = sum((branch.kept for branch in branches[1:]), branches[0].kept)  # (T, B, J, N)
    dropped = sum((branch.dropped for branch in branches[1:]), branches[0].dropped)  # (T, B, N)
    tokens = torch.einsum("tbjn,bnc->tbjc", kept, patches)  # (T, B, J, C)
    extra = torch.einsum("tbn,bnc->tbc", dropped, patches)  # (T, B, C)
    return [tokens, extra[:, :, None]]


def cosines(tokens: Tensor, words: Tensor) -> Tensor:
    r"""Tokens (T or 1, B, n, C) with their caption's unit words (T, W, C): (T, B, n, W).

    A token of zeros, as the extra one is where nothing was dropped, has cosine 0 and is divided by
    1: by a tiny length its gradient would be 1e12 times those of the others.

    Equation 5: $A_{jw} = \frac{\hat v_j \cdot t_w}{\lVert \hat v_j \rVert \lVert t_w \rVert}$
    """
    dots = torch.matmul(tokens.flatten(1, 2), words.mT)  # (T, B * n, W)
    length = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)  # (..., B, n, 1)
    least = max(1e-12, torch.finfo(length.dtype).tiny)  # in float16 1e-12 would be 0
    length = torch.where(length > 0, length.clamp_min(least), 1.0)  # (..., B, n, 1)
    A = torch.unflatten(dots, 1, tokens.shape[1:3]) / length  # (..., B, n, W)
    return A.expand(len(words), -1, -1, -1)


class Relevance(nn.Module):
    """Relevance of the strongest matches beyond their mean; one MLP for both directions."""

    def __init__(self, top: int, *, bias: bool = True) -> None:
        super().__init__()
        self.top, self.net = top, mlp(top, 2 * top, 1, bias=bias)

    def forward(self, best: Tensor) -> Tensor:
        r"""A term of the similarity from best matches (..., n), -inf where there is none: (...).

        Equation 5: $\mathrm{MLP}(\mathrm{topk}\, \max_j A)$
        """
        strongest = best.topk(min(self.top, best.shape[-1]), dim=-1).values
        strongest = strongest.masked_fill(strongest == -torch.inf, 0.0)
        return torch.squeeze(self.net(F.pad(strongest, (0, self.top - strongest.shape[-1]))), -1)


def alignment(A: Tensor, real: Tensor, relevance: Relevance | None) -> Tensor:
    r"""Similarities (T, B) of cosines (T, B, J, W); `real` (T, W) is False for padding.

    Tokens look for words and words for tokens. Without `relevance` the means alone count.

    Equation 5: $S_1 = \operatorname{mean}_i \max_j A + \mathrm{MLP}(\mathrm{topk}_i \max_j A),
    \quad S_2 = \operatorname{mean}_j \max_i A + \mathrm{MLP}(\mathrm{topk}_j \max_i A),
    \quad S = S_1 + S_2$
    """
    of_tokens = A.masked_fill(~real[:, None, None], -torch.inf).amax(3)  # (T, B, J)
    by_tokens = of_tokens.mean(-1)  # (T, B)
    of_words = A.amax(2)  # (T, B, W)
    by_words = of_words.masked_fill(~real[:, None], 0.0).sum(-1) / real.sum(1)[:, None]  # (T, B)
    if relevance is not None:
        by_tokens = by_tokens + relevance(of_tokens)
        by_words = by_words + relevance(of_words.masked_fill(~real[:, None], -torch.inf))
    return by_tokens + by_words


class Slimming(nn.Module):
    """Each text chooses patches, which are merged together and matched with the first."""

    def __init__(self, config: SepsConfig) -> None:
        super().__init__()
        self.config = config
        dim, J, bias = config.dim, config.aggregated, config.idle_biases
        texts = range(1 + config.dense)
        self.aggregations = nn.ModuleList(Aggregation(dim, J, bias=bias) for _ in texts)
        self.scale = nn.Parameter(torch.ones(1))
        self.scores = nn.ModuleList(ScoreMLP(dim) for _ in texts)
        self.relevance: Relevance | None = Relevance(config.top, bias=bias)

    def compare(self, patches: Tensor, texts: list[Prepared]) -> Output:
        r"""Similarities (T, B) of captions with images (B, 1 + N, C), CLS first if there is one.

        Equation 5: $A = \cos([\mathrm{CLS}, \hat v, \mathrm{extra}], t), \quad S = S_1 + S_2$
        """
        config, first = self.config, int(self.config.cls)
        cls, v = patches[None, :, :first], patches[:, first:]  # (1, B, 1, C), (B, N, C)
        image = guide(v, v.mean(1)[None], cosine=config.cosine)  # (1, B, N)
        asked = [guide(v, text.mean, cosine=config.cosine) for text in texts if config.beta]
        masks, shares = [], []
        for learnt, aggregation in zip(self.scores, self.aggregations, strict=True):
            scores = self.score(learnt(v), asked, image)  # (T, B, N)
            D = self.choose(scores)  # (T, B, N)
            gate = D if config.gate else D.detach()  # (T, B, N)
            shares.append(share(aggregation(v, self.scale), gate, scores))
            masks.append(D)
        A = torch.cat([cosines(part, texts[0].unit) for part in (cls, *merge(v, shares))], 2)
        return Output(alignment(A, texts[0].real, self.relevance), masks, shares)

    def score(self, learnt: Tensor, asked: list[Tensor], image: Tensor) -> Tensor:
        r"""Patch scores (T, B, N): learnt (B, N), guides of texts and image (T or 1, B, N).

        Equation 3: $s = (1 - 2 \beta) s_p + \beta (s_{st} + s_{dt} + 2 s_{im})$
        """
        beta = self.config.beta
        guided = 2 * minmax(image) + sum(minmax(text) for text in asked)  # (T, B, N)
        return (1 - 2 * beta) * learnt + beta * guided

    def choose(self, scores: Tensor) -> Tensor:
        r"""D (T, B, N): 1 for the patches that stay, with the gradient of a soft choice.

        At evaluation the K highest. In training every patch is drawn for itself (DynamicViT,
        arXiv:2106.02034), so that the ratio loss has something to hold, but never fewer than one;
        every caption meets an image under the same draw.

        Equation 7: $D = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$
        """
        middle = (1 + 2 * self.config.beta) / 2  # of the score's range
        logits = (scores - middle) / self.config.temperature  # (T, B, N)
        if not self.training:
            return noise.straight_through(top_mask(scores, self.config.kept), logits.sigmoid())
        soft = (logits + noise.logistic(logits[0])).sigmoid()  # (T, B, N)
        drawn = (soft > 0.5).to(soft.dtype)  # (T, B, N)
        return noise.straight_through(torch.maximum(drawn, top_mask(scores, 1)), soft)
