"""Small encoders for the scenes, in the places of a ViT and a BERT.

The image encoder is taught the labels of patches first, as a ViT comes from ImageNet; the text
encoder starts from nothing. Both are trained on with the alignment, as in the source.
"""

import torch
from torch import Tensor, nn

from . import toy as scenes
from .model import Texts


def _blocks(dim: int, layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        dim, 4, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False)


class ImageEncoder(nn.Module):
    """Pixels (B, 3, 32, 32) to CLS and patches (B, 1 + 64, C)."""

    def __init__(self, dim: int, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, dim, scenes.PATCH, scenes.PATCH)
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.places = nn.Parameter(0.02 * torch.randn(1, 1 + scenes.GRID * scenes.GRID, dim))
        self.blocks = _blocks(dim, layers)
        classes = (len(words) + 1 for words in scenes.ATTRIBUTES)
        self.label_heads = nn.ModuleList(nn.Linear(dim, count) for count in classes)

    def forward(self, images: Tensor) -> Tensor:
        r"""CLS and patches (B, 65, C) of images (B, 3, 32, 32).

        c is the CLS parameter, P that of the places.

        Equation: $[\mathrm{CLS}, v] = \mathrm{Encoder}([c, \mathrm{Conv}(2 x - 1)] + P)$
        """
        patches = self.embed(2 * images - 1).flatten(2).mT  # (B, 64, C)
        cls = self.cls.expand(len(images), -1, -1)  # (B, 1, C)
        encoded: Tensor = self.blocks(torch.cat([cls, patches], 1) + self.places)  # (B, 65, C)
        return encoded

    def label_loss(self, batch: scenes.Scenes) -> Tensor:
        r"""Cross entropy () of size, colour and shape of every patch; clutter is a class of each.

        Equation: $L = -\sum_a \log p_a(y_a \mid v)$
        """
        patches = self(batch.images)[:, 1:]  # (B, 64, C)
        loss = torch.zeros((), device=patches.device)
        for kind, head in enumerate(self.label_heads):
            logits = head(patches)  # (B, 64, classes)
            loss = loss + nn.functional.cross_entropy(logits.mT, batch.labels[..., kind])
        return loss


class TextEncoder(nn.Module):
    """Word ids (T, W), 0 being padding, to words (T, W, C)."""

    def __init__(self, dim: int, layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(scenes.VOCABULARY), dim)
        self.places = nn.Parameter(0.02 * torch.randn(1, scenes.DENSE_WORDS, dim))
        self.blocks = _blocks(dim, layers)

    def forward(self, ids: Tensor) -> Texts:
        r"""The words (T, W, C) of captions (T, W) with what of them is real (T, W).

        Padding is not attended to.

        Equation: $t_w = \mathrm{Encoder}(E_{id} + P)_w, \quad
        \mathrm{real}_w = [\, \mathrm{id}_w \ne 0 \,]$
        """
        real = ids != 0  # (T, W)
        words = self.embed(ids) + self.places[:, : ids.shape[1]]  # (T, W, C)
        return Texts(self.blocks(words, src_key_padding_mask=~real), real)
