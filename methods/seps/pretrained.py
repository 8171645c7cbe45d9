"""Encoders with weights of their own: ViT, Swin and BERT from a folder or the hub."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError
from ..kit.frozen import load_frozen, load_tokenizer, read_config
from .pairs import Texts

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as in the source
READERS = 8  # threads that read images
WANTED = {
    "image": "google/vit-base-patch16-224-in21k or microsoft/swin-base-patch4-window7-224",
    "text": "bert-base-uncased",
}


def _load(source: str, kind: str, classes: dict[str, str]) -> Any:
    """A model without its pooler, in float32 whatever the file has, to be trained."""
    import transformers  # noqa: PLC0415 - slow to import

    config = read_config(source, f"{kind} encoder (the source's: {WANTED[kind]})")
    if config.model_type not in classes:
        raise InputError(
            f"{source!r} is of type {config.model_type!r}; {kind} encoders are {', '.join(classes)}"
        )
    model_class = getattr(transformers, classes[config.model_type])
    loaded = load_frozen(model_class, source, dtype=torch.float32, add_pooling_layer=False)
    return loaded.requires_grad_(True)


def _to_shared(width: int, dim: int) -> nn.Module:
    return nn.Identity() if width == dim else nn.Linear(width, dim)


class VisionEncoder(nn.Module):
    """Pixels (B, 3, side, side) to what `Seps` reads: CLS and patches of a ViT, a Swin's patches.

    Raises:
        InputError: for weights that cannot be read or are of neither.
    """

    def __init__(self, source: str, dim: int) -> None:
        super().__init__()
        self.tower = _load(source, "image", {"vit": "ViTModel", "swin": "SwinModel"})
        config = self.tower.config
        self.cls = config.model_type == "vit"
        shrunk = config.patch_size * (1 if self.cls else 2 ** (len(config.depths) - 1))
        self.side = int(config.image_size)
        self.patches = (self.side // shrunk) ** 2
        self.to_shared = _to_shared(config.hidden_size, dim)

    def forward(self, images: Tensor) -> Tensor:
        r"""CLS (of a ViT) and patches (B, 1 + N, C).

        Equation: $v = W\, \mathrm{Tower}(x) + b$
        """
        encoded: Tensor = self.to_shared(self.tower(images).last_hidden_state)  # (B, 1 + N, C)
        return encoded


class BertEncoder(nn.Module):
    """Word ids (T, W), padding being the tokenizer's, to words (T, W, C).

    Raises:
        InputError: for weights that cannot be read or are of no BERT, or a missing tokenizer.
    """

    def __init__(self, source: str, dim: int) -> None:
        super().__init__()
        self.bert = _load(source, "text", {"bert": "BertModel"})
        self.to_shared = _to_shared(self.bert.config.hidden_size, dim)
        self.tokenizer = load_tokenizer(source, self.bert.config.vocab_size)
        if self.tokenizer.mask_token_id is None or self.tokenizer.pad_token_id is None:
            raise InputError(f"the tokenizer of {source!r} has no [MASK] or no [PAD]")

    def forward(self, ids: Tensor) -> Texts:
        r"""The words (T, W, C) of captions (T, W), [CLS] and [SEP] among them, as in the source.

        Equation: $t_w = W\, \mathrm{BERT}(\mathrm{id})_w + b$
        """
        real = ids != self.tokenizer.pad_token_id  # (T, W)
        words = self.bert(ids, attention_mask=real.long()).last_hidden_state  # (T, W, C')
        return Texts(self.to_shared(words), real)

    def ids(self, texts: list[str], most: int, generator: torch.Generator | None = None) -> Tensor:
        r"""Word ids (T, W) of texts cut at `most`; `generator` is given in training: `augmented`.

        Equation: $y_{t, i} = \mathrm{id}(w_{t, i})$, and that of [PAD] behind a text's last word.

        Raises:
            InputError: for texts longer than the weights have places.
        """
        room = self.bert.config.max_position_embeddings
        if most > room:
            raise InputError(f"texts of up to {most} words; the text encoder reads {room} at most")
        tokens = self.tokenizer(texts, truncation=True, max_length=most)
        rows = tokens["input_ids"]
        if generator is not None:
            rows = [
                augmented(ids, tokens.word_ids(i), self.tokenizer, generator)
                for i, ids in enumerate(rows)
            ]
        tensors = [torch.tensor(ids) for ids in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=self.tokenizer.pad_token_id)


def augmented(
    ids: list[int], words: list[int | None], tokenizer: Any, generator: torch.Generator
) -> list[int]:
    """The source's augmentation of one word in five: masked (.5), another (.1) or gone (.4).

    All pieces of a word share its fate; [CLS] and [SEP], whose word is None, stay.
    """
    count = 1 + max((word for word in words if word is not None), default=0)
    fate = torch.rand(count, generator=generator).tolist()
    changed = []
    for token, word in zip(ids, words, strict=True):
        drawn = 1.0 if word is None else fate[word] / 0.2
        if drawn < 0.5:
            changed.append(tokenizer.mask_token_id)
        elif drawn < 0.6:
            changed.append(int(torch.randint(len(tokenizer), (), generator=generator)))
        elif drawn >= 1:
            changed.append(token)
    return changed


def pixels(paths: list[Path], side: int, generator: torch.Generator | None = None) -> Tensor:
    r"""Images (B, 3, side, side); with a generator cropped and mirrored by chance, to train on.

    Equation: $y_{b, c} = (x_{b, c} / 255 - \mu_c) / \sigma_c$
    """
    draws: list[list[float] | None] = [None] * len(paths)
    if generator is not None:
        draws = torch.rand(len(paths), 5, generator=generator).tolist()
    with ThreadPoolExecutor(READERS) as pool:
        return torch.stack(list(pool.map(partial(_pixels, side=side), paths, draws)))


def _pixels(path: Path, draw: list[float] | None, side: int) -> Tensor:
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    box = None if draw is None else _crop(image.size, draw)
    image = image.resize((side, side), Image.Resampling.BICUBIC, box=box)
    data = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    tensor = data.view(side, side, 3).permute(2, 0, 1) / 255  # (3, side, side)
    tensor = (tensor - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    return tensor.flip(2) if draw is not None and draw[4] < 0.5 else tensor


def _crop(size: tuple[int, int], draw: list[float]) -> tuple[float, float, float, float]:
    """A box of 60 to 100 % of the area, its sides 3 : 4 to 4 : 3, as far as it fits."""
    width, height = size
    area = (0.6 + 0.4 * draw[0]) * width * height
    ratio = (3 / 4) ** (1 - 2 * draw[1])
    w, h = min(width, (area * ratio) ** 0.5), min(height, (area / ratio) ** 0.5)
    left, top = draw[2] * (width - w), draw[3] * (height - h)
    return left, top, left + w, top + h
