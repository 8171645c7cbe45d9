"""Flickr30K and COCO in the layout of the source's `data` folder, checked before any work.

::

    data/f30k/     train_ids.txt train_caps.txt test_ids.txt test_caps.txt id_mapping.json
                   f30k_train.jsonl f30k_test.jsonl
    data/coco/     the same, testall in the place of test
    data/flickr30k-images/    data/coco-images/{train2014,val2014}

`*_ids.txt` numbers an image a line, or repeats it for each of its captions; `*_caps.txt` holds a
caption a line, in the same order, as many for each image; `*.jsonl` a dense text for each image,
`{"text": ...}`. A split `dev` is for validation; where there is none, images of `train` are held
out for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ..errors import InputError
from ..kit.folders import read_json, read_text, refuse, unreadable

IMAGES = {"f30k": "flickr30k-images", "coco": "coco-images"}
TEST = {"f30k": "test", "coco": "testall"}
SOURCES = (
    "caption files are in the data folder of github.com/CrossmodalGroup/LAPS, dense texts "
    "(*.jsonl) in that of the source's repository; images are of kaggle.com/datasets/hsankesara/"
    "flickr-image-dataset and cocodataset.org (train2014, val2014)"
)


@dataclass(frozen=True)
class Split:
    """Images with their captions; `owners` says which image each caption is of."""

    images: tuple[Path, ...]
    captions: tuple[str, ...]
    owners: tuple[int, ...]
    dense: tuple[str, ...] = ()  # one for each image, or none at all

    def take(self, images: Sequence[int]) -> Self:
        """Return the split of some of its images, given by their indices, in that order."""
        number = {old: new for new, old in enumerate(images)}
        rows = [i for i, owner in enumerate(self.owners) if owner in number]
        return type(self)(
            tuple(self.images[i] for i in images),
            tuple(self.captions[i] for i in rows),
            tuple(number[self.owners[i]] for i in rows),
            tuple(self.dense[i] for i in images) if self.dense else (),
        )


def load(
    root: Path, dataset: str, split: str, *, dense: bool, skip: bool = False
) -> tuple[Split, list[str]]:
    """A split of a data set.

    Args:
        root: the folder called `data` above.
        dataset: `f30k` or `coco`.
        split: `train`, `dev`, `test` or `testall`.
        dense: whether dense texts are needed.
        skip: leave out images that cannot be used, instead of raising an error.

    Returns:
        the split, and what was left out and why.

    Raises:
        InputError: naming every file that is missing and where to get it; for files that do not
            fit each other; without `skip` also for images and captions that cannot be used.
    """
    folder, base = root / dataset, root / IMAGES[dataset]
    names = [f"{split}_ids.txt", f"{split}_caps.txt", "id_mapping.json"]
    names += [f"{dataset}_{split}.jsonl"] if dense else []
    missing = [str(folder / name) for name in names if not (folder / name).is_file()]
    missing += [] if base.is_dir() else [f"{base}/"]
    if missing:
        raise InputError(f"missing: {', '.join(missing)}; {SOURCES}")
    lines, captions = (
        [line.strip() for line in read_text(folder / name).rstrip().split("\n")]
        for name in names[:2]
    )
    if len(captions) % len(lines):
        sizes = f"{names[0]} has {len(lines)} lines, {names[1]} {len(captions)} captions"
        raise InputError(f"{sizes}: every line of images needs equally many")
    # A line of ids stands for one caption or for several; an image may have several lines.
    each = len(captions) // len(lines)
    ids = list(dict.fromkeys(lines))
    number = {image: i for i, image in enumerate(ids)}
    owners = [number[lines[i // each]] for i in range(len(captions))]
    texts = _texts(folder / names[3], len(ids)) if dense else []
    mapping = read_json(folder / names[2])
    if not isinstance(mapping, dict):
        raise InputError(f"{names[2]} holds {type(mapping).__name__}, not a mapping")
    # `base` only holds the place of an image that is left out.
    images = [base / mapping[i] if isinstance(mapping.get(i), str) else base for i in ids]
    # Why an image cannot be used: the first reason of each, "" for none.
    why = [
        unreadable(path) if path != base else f"image {i} is not in id_mapping.json"
        for i, path in zip(ids, images, strict=True)
    ]
    for row, (caption, owner) in enumerate(zip(captions, owners, strict=True), start=1):
        if not caption:
            why[owner] = why[owner] or f"caption {row} is empty"
    for i, text in enumerate(texts):
        if not text:
            why[i] = why[i] or f"the dense text of image {ids[i]} is empty"
    faults = [fault for fault in why if fault]
    if not skip or len(faults) == len(ids):
        refuse(faults, f"images of {dataset}/{split}")
    every = Split(tuple(images), tuple(captions), tuple(owners), tuple(texts))
    return every.take([i for i, fault in enumerate(why) if not fault]), faults


def _texts(path: Path, images: int) -> list[str]:
    """The dense texts; a line that cannot be read would give every later image another's text."""
    values = [row.get("text") if isinstance(row, dict) else None for row in read_json(path)]
    texts = [value.strip() if isinstance(value, str) else "" for value in values]
    if len(texts) != images:
        raise InputError(f"{path.name} has {len(texts)} dense texts for {images} images")
    return texts


def with_validation(
    root: Path, dataset: str, held_out: int, *, dense: bool, skip: bool = False
) -> tuple[Split, Split, list[str]]:
    """Training and validation splits, and the images that were left out, with reasons.

    Validation is the split `dev`, or else the last `held_out` images of `train`; the test split is
    never looked at.

    Raises:
        InputError: as `load`, and when nothing is left to train on.
    """
    train, faults = load(root, dataset, "train", dense=dense, skip=skip)
    if (root / dataset / "dev_ids.txt").is_file():
        dev, more = load(root, dataset, "dev", dense=dense, skip=skip)
        return train, dev, faults + more
    count = len(train.images) - held_out
    if count < 2:
        few = f"held_out={held_out} leaves fewer than two of train's {len(train.images)} images"
        raise InputError(f"{few}; lower it, or add dev_ids.txt and dev_caps.txt")
    every = range(len(train.images))
    return train.take(every[:count]), train.take(every[count:]), faults
