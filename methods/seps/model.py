"""The paper's variant with its options, and its baselines.

The baselines are the source's other variant, no slimming, and random patches.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError, UnknownNameError
from ..kit import noise
from .config import MENDED, SepsConfig
from .core import Slimming, alignment, cosines, guide, merge, share, top_mask
from .pairs import Output, Prepared, Texts

LEAK = 0.1  # slope of open_source's LeakyReLU


class Seps(Slimming):
    """The paper's variant; `config` says which of the source's faults are mended."""

    def forward(self, patches: Tensor, sparse: Texts, dense: Texts | None = None) -> Output:
        r"""Similarities of captions and images.

        Args:
            patches: (B, 1 + N, C), CLS first, or (B, N, C) where `cls` is off.
            sparse: the captions.
            dense: a longer text for each caption, or for each image where `dense_of` says so.

        Equation 5: $S = S_1 + S_2$, over both texts for open_source

        Raises:
            InputError: for shapes that disagree with the configuration or each other, or NaN or
                infinity.
        """
        self.check(patches, sparse, dense)
        return self.compare(patches, self._prepared(sparse, dense))

    def _prepared(self, sparse: Texts, dense: Texts | None) -> list[Prepared]:
        long = [] if dense is None else [dense.prepared(by_image=self._by_image)]
        return [sparse.prepared(), *long]

    def choose(self, scores: Tensor) -> Tensor:
        r"""D (T, B, N). As the core does, or with the source's relaxation: the K highest, with the
        gradient of a softmax over the patches, perturbed by Gumbel noise in training.

        Equation 7: $D = \mathrm{hard} + \mathrm{soft} - \mathrm{sg}(\mathrm{soft})$
        """
        if self.config.relaxation != "softmax":
            return super().choose(scores)
        noisy = scores + noise.gumbel(scores) if self.training else scores  # (T, B, N)
        return noise.straight_through(top_mask(scores, self.config.kept), noisy.softmax(-1))

    @property
    def tokens(self) -> int:
        """Tokens of an image that meet the words."""
        return int(self.config.cls) + self.config.aggregated + 1

    @torch.no_grad()
    def all_pairs(
        self, patches: Tensor, sparse: Texts, dense: Texts | None = None, *, images: int = 1
    ) -> Tensor:
        r"""Similarities (T, B) in evaluation, `images` at once: memory does not grow with B.

        n is `images`; of dense texts that belong to images the same rows are taken.

        Equation: $S_{\cdot, b \dots b + n - 1} = \mathrm{compare}(v_{b \dots b + n - 1}, t)$
        """
        self.check(patches, sparse, dense)
        texts, parts = self._prepared(sparse, dense), []
        for begin in range(0, len(patches), images):
            rows = slice(begin, begin + images)
            if dense is not None and self._by_image:
                texts[1] = dense[rows].prepared(by_image=True)
            parts.append(self.compare(patches[rows], texts).similarity)
        return torch.cat(parts, 1)  # (T, B)

    @property
    def _by_image(self) -> bool:
        return self.config.dense and self.config.dense_of == "image"

    def check(self, patches: Tensor, sparse: Texts, dense: Texts | None) -> None:
        """Check what is about to be compared.

        Raises:
            InputError: for the first thing that does not fit.
        """
        dim, first = self.config.dim, int(self.config.cls)
        if (
            patches.ndim != 3
            or patches.shape[1:] != (first + self.config.patches, dim)
            or not len(patches)
        ):
            raise InputError(
                f"patches are {tuple(patches.shape)}; (images, {first} + {self.config.patches}, "
                f"{dim}) are needed, {'CLS first' if first else 'no CLS'}"
            )
        if (dense is not None) != self.config.dense:
            has = "has a" if dense is not None else "has no"
            raise InputError(f"the model has dense={self.config.dense}, the call {has} dense text")
        for name, text in (("sparse", sparse), ("dense", dense)):
            if text is not None and (width := text.words.shape[2]) != dim:
                raise InputError(f"{name} words are {width} wide, the model {dim}")
        rows = len(patches) if self._by_image else len(sparse.words)
        if dense is not None and len(dense.words) != rows:
            raise InputError(f"there are {len(dense.words)} dense texts for {rows} rows")
        if not bool(torch.isfinite(patches).all()):
            raise InputError("patches hold NaN or infinity")


class OpenSource(Seps):
    """The source's other variant: no learnt score, and each text is matched by tokens of its own,
    merged by one aggregation for both.
    """

    def __init__(self, config: SepsConfig) -> None:
        super().__init__(config)
        self.aggregations, self.scores = self.aggregations[:1], nn.ModuleList()
        self.relevance = None

    def compare(self, patches: Tensor, texts: list[Prepared]) -> Output:
        r"""Similarities (T, B) of images (B, 1 + N, C); x runs over the texts.

        Equation: $S = \sum_x S(A^x), \quad A^x_{jw} = \mathrm{leaky}(\cos(\hat v_j, t^x_w))$
        """
        first = int(self.config.cls)
        cls, v = patches[None, :, :first], patches[:, first:]  # (1, B, 1, C), (B, N, C)
        image, strengths = guide(v, v.mean(1)[None]), self.aggregations[0](v, self.scale)
        S, masks, shares = torch.zeros((), device=v.device), [], []
        for text in texts:
            scores = image + guide(v, text.mean)  # (T, B, N)
            masks.append(top_mask(scores, self.config.kept))
            shares.append(share(strengths, masks[-1], scores))
            A = torch.cat([cosines(part, text.unit) for part in (cls, *merge(v, shares[-1:]))], 2)
            S = S + alignment(F.leaky_relu(A, LEAK), text.real, None)
        return Output(S, masks[:1], shares)


class Whole(Seps):
    """No slimming: every patch meets every word, with the paper's relevance MLP."""

    def __init__(self, config: SepsConfig) -> None:
        super().__init__(replace(config, variant="paper", dense=False, keep=1.0))
        self.scores, self.aggregations = nn.ModuleList(), nn.ModuleList()
        self.scale.requires_grad = False

    def compare(self, patches: Tensor, texts: list[Prepared]) -> Output:
        r"""Similarities of all pairs, each patch (B, 1 + N, C) standing for itself.

        Equation 5: $A_{iw} = \cos(v_i, t_w)$
        """
        A = torch.einsum("bnc,twc->tbnw", F.normalize(patches, dim=-1), texts[0].unit)
        S = alignment(A, texts[0].real, self.relevance)  # (T, B)
        return Output(S, [torch.ones(*S.shape, self.config.patches, device=S.device)], [])


class Random(Seps):
    """As many patches, aggregated alike, chosen without looking."""

    def score(self, learnt: Tensor, asked: list[Tensor], image: Tensor) -> Tensor:
        r"""A score (1, B, N) from torch's global generator, the same for every caption.

        Equation: $s_{bn} \sim \mathrm{Uniform}(0, 1)$
        """
        return torch.rand_like(learnt)[None]


# The rows of the comparison: which model, and what its configuration changes.
CANDIDATES: dict[str, tuple[type[Seps], dict[str, Any]]] = {
    "whole": (Whole, {}),
    "random": (Random, {"variant": "paper", "dense": False, "beta": 0.0}),
    "laps": (OpenSource, {"variant": "open_source", "dense": False}),
    "open_source": (OpenSource, {"variant": "open_source"}),
    "paper": (Seps, {"variant": "paper"}),
    "seps_learnt": (Seps, MENDED | {"dense": False, "beta": 0.0}),
    "seps_sparse": (Seps, MENDED | {"dense": False}),
    "seps_image": (Seps, MENDED | {"dense_of": "image"}),
    "seps": (Seps, MENDED),
}


def candidate(name: str, base: SepsConfig) -> Seps:
    """The model that a row of the comparison trains.

    Raises:
        UnknownNameError: for a name that is none of `CANDIDATES`.
    """
    if name not in CANDIDATES:
        raise UnknownNameError("candidate", name, CANDIDATES)
    model, changes = CANDIDATES[name]
    return model(replace(base, **changes))


def make_model(config: SepsConfig) -> Seps:
    """The untrained model of a configuration."""
    return OpenSource(config) if config.variant == "open_source" else Seps(config)
