"""A checkpoint such as one downloads: weights in half precision, a processor, images beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CLIPImageProcessorPil, LlavaProcessor, PreTrainedTokenizerFast

from methods.token_pruning.llava import load_llava, sized

WORDS = ("USER", "ASSISTANT", ":", "what", "is", "this", "?", "a", "cat", "dog", "red", "blue",
         "yes", "no", "two", "colour", "of", "the", "answer", "in", "one", "word", ".")  # fmt: skip
SPECIAL = ("<pad>", "<s>", "<image>", "</s>", "<unk>")


def processor_of(side: int, patch: int) -> Any:
    vocab = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", additional_special_tokens=["<image>"],
    )  # fmt: skip
    size = {"height": side, "width": side}
    images = CLIPImageProcessorPil(size=size, crop_size=size)
    return LlavaProcessor(
        images, tokenizer, patch_size=patch, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip


def picture(seed: int = 0, side: int = 40) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(noise)


@pytest.fixture(scope="session")
def saved() -> Callable[..., Path]:
    """Save a tiny LLaVA with its processor into a folder."""

    def save(folder: Path, dtype: torch.dtype = torch.float16, **sizes: dict[str, int]) -> Path:
        llava = load_llava(sized(**sizes), dtype=dtype)
        llava.generation_config.eos_token_id = 3
        llava.generation_config.pad_token_id = 0
        llava.save_pretrained(folder)
        seen = llava.config.vision_config
        processor_of(seen.image_size, seen.patch_size).save_pretrained(folder)
        return folder

    return save
