"""What a layer attended to, computed only when asked for."""

from dataclasses import dataclass

from torch import Tensor

from ..errors import InputError
from .config import SparseAttentionConfig, resolve_window, sparsity_ratio
from .oracle import head_masks

LONGEST_MASK = 2048  # a mask of 2048 x 2048 is 4 MiB; use the closed forms above


@dataclass(frozen=True)
class Intermediate:
    """What one forward pass looked like, described rather than stored.

    `n` tokens were attended by a layer whose window was resolved for `context`.
    """

    config: SparseAttentionConfig
    n: int
    context: int

    @property
    def window(self) -> int:
        """The window of the local heads, in keys, the token itself included."""
        return resolve_window(self.config, self.context)

    @property
    def sparsity_ratio(self) -> float:
        """Share of the n * n pairs that no head spends work on, averaged over heads."""
        return sparsity_ratio(self.config, self.n, self.context)

    def head_masks(self) -> Tensor:
        r"""(heads, n, n) bool, True = attended; made when asked for.

        Equation: $M_{hij} = M^G_{ij}, \quad \mathrm{start}_G \le h < \mathrm{stop}_G$

        M^G is the `group_mask` of a group G of `head_groups`, its window resolved for `context`.

        Raises:
            InputError: above 2048 tokens.
        """
        if self.n > LONGEST_MASK:
            limit = f"masks are limited to n = {LONGEST_MASK}, not {self.n}"
            raise InputError(f"{limit}; sparsity_ratio and window need none")
        return head_masks(self.config, self.n, self.context)


def reach(config: SparseAttentionConfig, n: int) -> float:
    r"""Share of causal pairs (i, j) where something of token j can arrive at i in two layers.

    Equation: $\frac{2}{n (n + 1)} \sum_{j \le i} [\, (A^2)_{ij} > 0 \,], \quad
    A_{ij} = \max_h M_{hij}$

    Two layers suffice when w >= s: a window brings token j to an anchor, the anchor to i.
    """
    any_head = Intermediate(config, n, n).head_masks().any(0).double()  # (n, n)
    reached = any_head @ any_head > 0  # (n, n)
    return float(reached.tril().sum() / (n * (n + 1) / 2))
