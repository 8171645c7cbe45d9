"""Pictures of patches: well-formed, with every text inside and no brightness that wraps around."""

from __future__ import annotations

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from methods.kit.images import Panel, panels

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>&\"'"


def drawn(label: str, left: int, pixels: torch.Tensor | None = None) -> ElementTree.Element:
    grey = torch.full((3, 4, 4), 0.5) if pixels is None else pixels
    row = (label, grey, [Panel(HOSTILE, {0: 'fill="red"'}, {1: HOSTILE})])
    return ElementTree.fromstring(panels(HOSTILE, [row, row], grid=2, side=30, left=left))


def test_every_text_is_escaped() -> None:
    texts = [element.text for element in drawn(HOSTILE, 0).iter() if element.text]
    assert texts == [HOSTILE] * 7  # the title, and a label, a patch and a panel of each row


@pytest.mark.parametrize("lines", [1, 2, 3, 9])
@pytest.mark.parametrize("left", [0, 92])
def test_every_line_is_inside_and_no_row_covers_another(lines: int, left: int) -> None:
    picture = drawn("\n".join("abcdefghi"[:lines]), left)
    height = float(picture.attrib["viewBox"].split()[3])
    baselines = [float(text.attrib["y"]) for text in picture.findall(f"{SVG}text")]
    assert len(baselines) == 2 * lines
    assert baselines == sorted(set(baselines))
    assert max(baselines) + 4 < height
    images = [
        float(re.findall(r"[\d.]+", group.attrib["transform"])[1])
        for group in picture.findall(f"{SVG}g")
    ]
    assert images[1] >= images[0] + 30 + 13  # with the panel's title in between
    assert images[1] - 8 - 13 >= baselines[lines - 1]


def test_brightness_beyond_the_range_is_cut() -> None:
    pixels = torch.tensor([-0.5, 0.0, 0.5, 1.5]).expand(3, 1, 4)
    (image, *_) = drawn("", 0, pixels).iter(f"{SVG}image")
    data = base64.b64decode(image.attrib["href"].partition(",")[2])
    assert np.asarray(Image.open(io.BytesIO(data)))[0, :, 0].tolist() == [0, 0, 128, 255]
