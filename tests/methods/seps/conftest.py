"""Tiny saved encoders and a folder of images and captions, as people have them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    SwinConfig,
    SwinModel,
    ViTConfig,
    ViTModel,
)

WORDS = ("a", "dog", "cat", "red", "blue", "ball", "on", "grass", "run", "##ning", "two", "men")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
IMAGES = {"train": range(8), "dev": range(8, 12), "test": range(12, 17)}


def save_encoders(folder: Path) -> None:
    """A ViT in half precision, a Swin without CLS, a BERT with its words."""
    size = {"image_size": 32, "num_channels": 3}
    torch.manual_seed(0)
    ViTModel(
        ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                  patch_size=8, **size)
    ).half().save_pretrained(folder / "vit")  # fmt: skip
    SwinModel(
        SwinConfig(
            embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, patch_size=4, **size
        )
    ).save_pretrained(folder / "swin")
    BertModel(
        BertConfig(vocab_size=len(SPECIAL) + len(WORDS), hidden_size=16, num_hidden_layers=1,
                   num_attention_heads=2, intermediate_size=32)
    ).half().save_pretrained(folder / "bert")  # fmt: skip
    (folder / "vocab.txt").write_text("\n".join((*SPECIAL, *WORDS)))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    save_encoders(folder)
    return folder


@pytest.fixture
def folder(tmp_path, encoders):
    """Flickr30K's layout, five captions an image: ids once in train, once a caption in test."""
    own = tmp_path / "data" / "f30k"
    own.mkdir(parents=True)
    images = tmp_path / "data" / "flickr30k-images"
    images.mkdir()
    mapping = {}
    for split, numbers in IMAGES.items():
        captions, ids = [], []
        for i in numbers:
            noise = np.random.default_rng(i).integers(0, 255, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(noise).save(images / f"{1000 + i}.jpg")
            mapping[str(i)] = f"{1000 + i}.jpg"
            captions += [f"{WORDS[(i + k) % 12]} {WORDS[i % 12]} on a grass" for k in range(5)]
            ids += [str(i)] * (5 if split == "test" else 1)
        (own / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
        (own / f"{split}_ids.txt").write_text("\n".join(ids) + "\n")
        texts = [json.dumps({"text": f"two red {WORDS[i % 12]} running"}) for i in numbers]
        (own / f"f30k_{split}.jsonl").write_text("\n".join(texts) + "\n")
    (own / "id_mapping.json").write_text(json.dumps(mapping))
    (tmp_path / "out").mkdir()
    return tmp_path
