"""Similarity of every caption with every image, whose patches are slimmed for that caption.

Letters: T captions, B images, N patches, C width, J aggregated tokens, W words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..kit import noise
from . import core as align, slimming
from .config import SepsConfig
from .scores import ScoreMLP, minmax, self_guide, text_guide
from .slimming import Aggregation, Shares, top_mask


@dataclass(frozen=True)
class Batch:
    """Pairs of an image and a caption as encoders take them; `owners` (B,) says whose image a pair
    has, where several captions are of one.
    """

    images: Tensor  # (B, 3, side, side)
    sparse: Tensor  # (B, W) word ids
    dense: Tensor | None = None  # (B, W') word ids
    owners: Tensor | None = None

    def to(self, device: str) -> Self:
        """The same on another device."""
        moved = {n: None if t is None else t.to(device) for n, t in vars(self).items()}
        return replace(self, **moved)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Prepared:
    """A text as images are compared with it."""

    unit: Tensor  # (T, W, C) words of length 1
    real: Tensor  # (T, W) bool
    mean: Tensor  # (T, C)


@dataclass(frozen=True)
class Texts:
    """Words of captions, padded to one length.

    Raises:
        InputError: for shapes that disagree, a caption without a word, or NaN or infinity.
    """

    words: Tensor  # (T, W, C)
    real: Tensor  # (T, W) bool: False is padding

    def __post_init__(self) -> None:
        if self.words.ndim != 3 or self.real.shape != self.words.shape[:2]:
            given = f"words are {tuple(self.words.shape)}, their mask {tuple(self.real.shape)}"
            raise InputError(f"{given}; (captions, words, dim) and (captions, words) are needed")
        if self.real.dtype != torch.bool or not bool(self.real.any(1).all()):
            raise InputError("the mask of words must be boolean, with a word in every caption")
        if not bool(torch.isfinite(self.words[self.real]).all()):
            raise InputError("words hold NaN or infinity")

    def prepared(self) -> Prepared:
        r"""What every image asks of a text, computed once for all of them.

        Equation: $\hat t_w = t_w / \lVert t_w \rVert, \quad E = \frac{1}{W} \sum_w t_w$
        """
        unit = F.normalize(self.words, dim=-1)  # (T, W, C)
        # Padding may hold NaN, which would reach the gradient of every token that meets it.
        unit = unit.masked_fill(~self.real[..., None], 0.0)  # (T, W, C)
        return Prepared(unit, self.real, self.mean())

    def __getitem__(self, rows: slice | Tensor) -> Self:
        r"""Some of the captions, i (n,). Equation: $t'_j = t_{i_j}$"""
        return type(self)(self.words[rows], self.real[rows])

    @torch.no_grad()
    def mean(self) -> Tensor:
        r"""The mean word of each caption, without gradient: (T, C).

        Equation 2: $E = \frac{1}{W} \sum_w t_w$
        """
        words = self.words.masked_fill(~self.real[..., None], 0.0)  # (T, W, C)
        return words.sum(1) / self.real.sum(1)[:, None]


@dataclass(frozen=True)
class Output:
    """What `Seps` says of all pairs; in masks and shares T is 1 where all captions choose alike."""

    similarity: Tensor  # (T, B)
    masks: list[Tensor]  # (T, B, N) of each branch, open_source's first alone: 1 stays
    shares: list[Shares]  # of each branch


class Seps(nn.Module):
    """Both variants; `config` says which, and which of the source's faults are mended."""

    def __init__(self, config: SepsConfig) -> None:
        super().__init__()
        self.config = config
        paper = config.variant == "paper"
        # Each text chooses patches; open_source merges for both alike.
        nets = 1 + config.dense if paper else 1
        self.aggregations = nn.ModuleList(
            Aggregation(config.dim, config.aggregated, bias=config.idle_biases) for _ in range(nets)
        )
        self.scale = nn.Parameter(torch.ones(1))
        self.scores = nn.ModuleList(ScoreMLP(config.dim) for _ in range(nets if paper else 0))
        self.relevance = align.Relevance(config.top, bias=config.idle_biases) if paper else None

    def forward(self, patches: Tensor, sparse: Texts, dense: Texts | None = None) -> Output:
        r"""Similarities of captions and images.

        Args:
            patches: (B, 1 + N, C), CLS first, or (B, N, C) where `cls` is off.
            sparse: the captions.
            dense: a longer text for each caption, or for each image where `dense_of` says so.

        Equation: $S = S_{sparse} + S_{dense}$ for open_source; equation 5 for the paper

        Raises:
            InputError: for shapes that disagree with the configuration or each other, or NaN or
                infinity.
        """
        self.check(patches, sparse, dense)
        texts = [sparse] if dense is None else [sparse, dense]
        return self.compare(patches, [text.prepared() for text in texts])

    def compare(self, patches: Tensor, texts: list[Prepared]) -> Output:
        r"""`forward` with texts that are prepared, unchecked: similarities (T, B).

        S(A) is equation 5. In open_source x runs over the texts, each with tokens of its own; in
        the paper's variant it is the sparse text alone, and the tokens of both branches are summed.

        Equation: $S = \sum_x S(A^x), \quad A^x_{jw} = \cos(\hat v_j, t^x_w), \quad
        \hat v = [\mathrm{CLS}, \mathrm{aggregated}, \mathrm{extra}]$
        """
        first = int(self.config.cls)
        cls = patches[None, :, :first]  # (1, B, 1, C), nothing where there is none
        spatial = patches[:, first:]  # (B, N, C)
        if self.config.variant == "open_source":
            return self._open_source(cls, spatial, texts)
        return self._paper(cls, spatial, texts)

    def _open_source(self, cls: Tensor, spatial: Tensor, texts: list[Prepared]) -> Output:
        image = self_guide(spatial)  # (B, N)
        strengths = self.aggregations[0](spatial, self.scale)  # (B, N, J)
        S = torch.zeros((), device=spatial.device)
        masks, shares = [], []
        for text in texts:
            scores = image + text_guide(spatial, text.mean)  # (T, B, N)
            gate = top_mask(scores, self.config.kept)  # (T, B, N)
            masks.append(gate)
            shares.append(slimming.share(strengths, gate, scores))
            S = S + self._match([cls, *slimming.merge(spatial, shares[-1:])], text)
        return Output(S, masks[:1], shares)

    def _paper(self, cls: Tensor, spatial: Tensor, texts: list[Prepared]) -> Output:
        image = self_guide(spatial, cosine=self.config.cosine)  # (B, N)
        guides = self.guides(spatial, texts) if self.config.beta else []
        masks, shares = [], []
        for learnt, aggregation in zip(self.scores, self.aggregations, strict=True):
            scores = self.score(learnt(spatial), guides, image)  # (T, B, N)
            D = self.choose(scores)  # (T, B, N)
            gate = D if self.config.gate else D.detach()  # (T, B, N)
            strengths = aggregation(spatial, self.scale)  # (B, N, J)
            shares.append(slimming.share(strengths, gate, scores))
            masks.append(D)
        tokens, extra = slimming.merge(spatial, shares)  # (T, B, J, C), (T, B, 1, C)
        if self.config.tokens == "merged":
            return Output(self._match([cls, tokens, extra], texts[0]), masks, shares)
        ones = torch.ones_like(gate[..., :1])  # (T, B, 1)
        parts = [(cls, ones[..., : cls.shape[2]]), (spatial[None], gate), (extra, ones)]
        found, stay = zip(*parts[: 3 if self.config.tokens == "extra" else 2], strict=True)
        return Output(self._match(found, texts[0], torch.cat(stay, 2)), masks, shares)

    def guides(self, spatial: Tensor, texts: list[Prepared]) -> list[Tensor]:
        r"""What each text asks of the patches (B, N, C): (T, B, N) each.

        With `dense_of` image the dense guide of an image is its own text's, for every caption.

        Equation 2: $s_{st} = \cos(v, E_{st}), \quad s_{dt} = \cos(v, E_{dt})$, or the source's
        products over C where `cosine` is off
        """
        cosine = self.config.cosine
        found = [text_guide(spatial, text.mean, cosine=cosine) for text in texts]
        if self._by_image:
            own = found[1].diagonal(dim1=0, dim2=1).T  # (B, N): of each image with its own text
            found[1] = own.expand_as(found[0])
        return found

    def score(self, learnt: Tensor, guides: list[Tensor], image: Tensor) -> Tensor:
        r"""The score (T, B, N) that decides: learnt (B, N), guides (T, B, N) each, image (B, N).

        Without guides of texts every caption sees the same: T is 1.

        Equation 3: $s = (1 - 2 \beta) s_p + \beta (s_{st} + s_{dt} + 2 s_{im})$
        """
        beta = self.config.beta
        guided = 2 * minmax(image)[None] + sum(minmax(guide) for guide in guides)  # (T, B, N)
        return (1 - 2 * beta) * learnt + beta * guided

    def choose(self, scores: Tensor) -> Tensor:
        r"""D (T, B, N): 1 for the patches that stay, with the gradient of a soft choice.

        `softmax`, the source's: the K highest, with the gradient of a softmax over the patches,
        perturbed by Gumbel noise in training. `gumbel_sigmoid`: in training every patch is drawn
        for itself, as in DynamicViT (arXiv:2106.02034), so that how many stay is free and the
        ratio loss has something to hold, but never fewer than one; at evaluation the K highest.
        Every caption of a batch meets an image under the same draw: what tells the pairs apart,
        and so trains, is then what they say and no noise.

        Equation 7: $D = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$
        """
        if self.config.relaxation == "softmax":
            noisy = scores + noise.gumbel(scores) if self.training else scores  # (T, B, N)
            soft = noisy.softmax(-1)  # (T, B, N)
            return noise.straight_through(top_mask(scores, self.config.kept), soft)
        middle = (1 + 2 * self.config.beta) / 2  # of the score's range
        logits = (scores - middle) / self.config.temperature  # (T, B, N)
        if not self.training:
            return noise.straight_through(top_mask(scores, self.config.kept), logits.sigmoid())
        soft = (logits + slimming.logistic_noise(logits[0])).sigmoid()  # (T, B, N)
        drawn = (soft > 0.5).to(soft.dtype)  # (T, B, N)
        return noise.straight_through(torch.maximum(drawn, top_mask(scores, 1)), soft)

    def _match(
        self, tokens: Sequence[Tensor], text: Prepared, stay: Tensor | None = None
    ) -> Tensor:
        found = [align.cosines(part, text.unit) for part in tokens if part.shape[2]]
        A = torch.cat([part.expand(len(text.unit), -1, -1, -1) for part in found], 2)
        halves = self.config.halves
        return align.alignment(A, text.real, self.relevance, stay=stay, halves=halves)  # (T, B)

    def losses(
        self, output: Output, *, hardest: float = 1.0, owners: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Alignment and weighted ratio loss of a batch of true pairs: two scalars.

        Those of equations 6 and 7; w is `ratio_weight`, `owners` are `align.alignment_loss`'s.

        Equation: $(L_{align}, w L_{ratio})$
        """
        config, S = self.config, output.similarity
        align_loss = align.alignment_loss(S, config.margin, hardest=hardest, owners=owners)
        ratio = align.ratio_loss(output.masks, config.keep, config.lam)
        return align_loss, config.ratio_weight * ratio

    @property
    def tokens(self) -> int:
        """Tokens of an image that meet the words."""
        config = self.config
        first = int(config.cls)
        if config.tokens == "merged":
            return first + config.aggregated + 1
        return first + config.kept + (config.tokens == "extra")

    @torch.no_grad()
    def all_pairs(
        self, patches: Tensor, sparse: Texts, dense: Texts | None = None, *, images: int = 1
    ) -> Tensor:
        r"""Similarities (T, B) in evaluation, `images` at once: memory does not grow with B.

        n is `images`; of dense texts that belong to images the same rows are taken.

        Equation: $S_{\cdot, b \dots b + n - 1} = \mathrm{compare}(v_{b \dots b + n - 1}, t)$
        """
        self.check(patches, sparse, dense)
        texts = [text.prepared() for text in (sparse, dense) if text is not None]
        found = []
        for begin in range(0, len(patches), images):
            rows = slice(begin, begin + images)
            own = texts
            if dense is not None and self._by_image:
                own = [texts[0], dense[rows].prepared()]
            found.append(self.compare(patches[rows], own).similarity)
        return torch.cat(found, 1)  # (T, B)

    @property
    def _by_image(self) -> bool:
        return self.config.dense and self.config.dense_of == "image"

    def check(self, patches: Tensor, sparse: Texts, dense: Texts | None) -> None:
        """Check what is about to be compared.

        Raises:
            InputError: for the first thing that does not fit.
        """
        first = int(self.config.cls)
        wanted = (first + self.config.patches, self.config.dim)
        if patches.ndim != 3 or patches.shape[1:] != wanted or not len(patches):
            raise InputError(
                f"patches are {tuple(patches.shape)}; (images, {first} + {self.config.patches}, "
                f"{self.config.dim}) are needed, {'CLS first' if first else 'no CLS'}"
            )
        if (dense is not None) != self.config.dense:
            has = "has a" if dense is not None else "has no"
            raise InputError(f"the model has dense={self.config.dense}, the call {has} dense text")
        for name, text in (("sparse", sparse), ("dense", dense)):
            if text is not None and text.words.shape[2] != self.config.dim:
                width = text.words.shape[2]
                raise InputError(f"{name} words are {width} wide, the model {self.config.dim}")
        rows = len(patches) if self._by_image else len(sparse.words)
        if dense is not None and len(dense.words) != rows:
            raise InputError(f"there are {len(dense.words)} dense texts for {rows} rows")
        if not bool(torch.isfinite(patches).all()):
            raise InputError("patches hold NaN or infinity")
