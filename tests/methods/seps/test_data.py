"""Folders of images, captions and dense texts, and their variation in training."""

import json

import pytest
import torch
from PIL import Image

from methods.errors import InputError
from methods.kit.seeds import generator
from methods.seps import data, pretrained


def test_dense_texts_belong_to_their_images(folder):
    split, _ = data.load(folder / "data", "f30k", "test", dense=True)
    assert split.owners == tuple(i for i in range(5) for _ in range(5))
    assert split.dense[1] == "two red dog running"
    assert split.take([1, 3]).owners == (0,) * 5 + (1,) * 5
    path = folder / "data" / "f30k" / "f30k_test.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[1:]))
    with pytest.raises(InputError, match="4 dense texts for 5 images"):
        data.load(folder / "data", "f30k", "test", dense=True)
    path.write_text("\n".join(["no", *lines[1:]]))  # the source would pass over it
    with pytest.raises(InputError, match=r"f30k_test.jsonl is no JSON"):
        data.load(folder / "data", "f30k", "test", dense=True)


@pytest.mark.parametrize("text", [None, 3, ["a dog"], {}])
def test_a_dense_text_that_is_no_text_is_named(folder, text):
    """In words `null` would be "None", which no caption's image shows."""
    path = folder / "data" / "f30k" / "f30k_test.jsonl"
    _, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({"text": text}), *others]))
    with pytest.raises(InputError, match="the dense text of image 12 is empty"):
        data.load(folder / "data", "f30k", "test", dense=True)
    left, faults = data.load(folder / "data", "f30k", "test", dense=True, skip=True)
    assert (len(left.images), len(faults)) == (4, 1)
    assert left.dense[0] == "two red dog running"


def test_half_of_the_images_are_mirrored_in_training(tmp_path):
    path = tmp_path / "half.png"
    image = Image.new("RGB", (40, 40))
    image.paste((255, 255, 255), (20, 0, 40, 40))
    image.save(path)
    seen = pretrained.pixels([path] * 200, 8, generator(0))
    mirrored = seen[:, 0, :, 0].mean(1) > seen[:, 0, :, -1].mean(1)
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.12)


def test_words_are_augmented_whole(encoders):
    """One word in five: masked (.5), another (.1) or gone (.4), with all its pieces."""
    bert = pretrained.BertEncoder(str(encoders / "bert"), 16)
    tokenizer = bert.tokenizer
    found = tokenizer("running dog " * 2000)
    ids, words = found["input_ids"], found.word_ids()
    run, ning, mask = tokenizer.convert_tokens_to_ids(["run", "##ning", "[MASK]"])
    made = pretrained.augmented(ids, words, tokenizer, generator(0))
    assert (made[0], made[-1]) == (ids[0], ids[-1])
    assert made.count(run) == pytest.approx(made.count(ning), abs=12)  # but for words by chance
    pieces = len(ids) - 2
    assert (pieces - len(made) + 2) / pieces == pytest.approx(0.08, abs=0.012)
    assert made.count(mask) / pieces == pytest.approx(0.10, abs=0.012)
    assert bert.ids(["a dog"], 12).tolist() == [tokenizer("a dog")["input_ids"]]


def test_pixels_are_normalised_and_cropped_in_training(folder):
    path = folder / "white.png"
    Image.new("RGB", (60, 40), (255, 255, 255)).save(path)
    found = pretrained.pixels([path], 8)
    assert found.shape == (1, 3, 8, 8)
    assert found[0, :, 0, 0].tolist() == pytest.approx([2.2489, 2.4286, 2.64], abs=1e-3)
    image = folder / "data/flickr30k-images/1000.jpg"
    still, moved = pretrained.pixels([image], 8), pretrained.pixels([image], 8, generator(0))
    assert not torch.equal(still, moved)
    left, top, right, bottom = pretrained._crop((100, 100), [0.0, 0.5, 1.0, 0.0])
    assert (right, top) == (pytest.approx(100), 0)
    assert (right - left) * (bottom - top) == pytest.approx(6000)
    left, top, right, bottom = pretrained._crop((100, 100), [0.5, 0.75, 0.0, 1.0])
    assert (left, bottom) == (0, pytest.approx(100))
    assert (right - left) * (bottom - top) == pytest.approx(8000)
    assert (right - left) / (bottom - top) == pytest.approx((4 / 3) ** 0.5)
