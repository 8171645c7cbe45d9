"""Stage 2: heads inside the language model say which visual tokens go on."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import PruningConfig
from .merger import attend, score_head


class LayerHead(nn.Module):
    """Logits l of the visual tokens before a layer, given the question.

    Visual and question states are mapped to d_internal, the visual ones attend to the question, a
    scorer gives l. In training m = softmax(([0, l] + Gumbel) / tau)[1] gates the keys
    (`relax.soft_gate`); afterwards the highest l are kept. States are brought to one length first,
    a word's being a fraction of a patch's. Both maps start equal, and so do queries and keys: a
    patch starts by reading the words that are most like it.
    """

    def __init__(self, d_model: int, config: PruningConfig) -> None:
        super().__init__()
        d = config.d_internal
        self.vision = nn.Linear(d_model, d)
        self.text = nn.Linear(d_model, d)
        self.attention = nn.MultiheadAttention(d, config.num_heads, batch_first=True)
        self.scorer = score_head(d)
        nn.init.orthogonal_(self.vision.weight)
        self.text.load_state_dict(self.vision.state_dict())
        with torch.no_grad():
            query, key, _ = self.attention.in_proj_weight.chunk(3)
            nn.init.orthogonal_(query, gain=2.0)
            key.copy_(query)

    def forward(self, visual: Tensor, text: Tensor, valid: Tensor) -> Tensor:
        r"""Score visual tokens.

        Equation: $l_i = \mathrm{MLP}(x_i + \mathrm{MHA}(x_i, W_t \hat h^{text} + b_t)), \quad
        x_i = W_v \hat h_i + b_v, \quad \hat h = \mathrm{RMSNorm}(h)$

        Args:
            visual: hidden states (B, n, d_model), of any floating type.
            text: hidden states of the question (B, t, d_model).
            valid: (B, t) bool, False for padding.

        Returns:
            l, (B, n); above 0 a token is rather kept.
        """
        dtype = self.vision.weight.dtype  # the model may be of half precision
        visual, text = (F.rms_norm(h.to(dtype), h.shape[-1:]) for h in (visual, text))
        inner = self.vision(visual)
        logits: Tensor = self.scorer(inner + attend(self.attention, inner, self.text(text), valid))
        return logits[..., 0]
