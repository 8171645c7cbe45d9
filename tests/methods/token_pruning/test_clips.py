"""Clips: what is there when, what questions need, and what may be read of them, in loops."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from methods.errors import InputError
from methods.kit.seeds import randn
from methods.token_pruning import clips, scenes
from methods.token_pruning.choice import BEFORE, Stage
from methods.token_pruning.core import read
from methods.token_pruning.llava import encode, load_llava, sized

T, P = 6, scenes.PATCHES


@pytest.fixture(scope="module")
def drawn():
    return clips.draw(3, T, torch.Generator().manual_seed(1))


def test_a_glyph_is_there_while_it_is_said_to_be_and_clutter_else(drawn):
    """Seen in the pixels: the glyph's colours fill its mask in these frames and in no other."""
    masks = torch.stack([*scenes.glyphs().values()])
    lengths = drawn.end - drawn.begin
    assert lengths.min() >= 1
    assert lengths.max() <= T // 2
    assert drawn.begin.min() >= 0
    assert drawn.end.max() <= T
    for b in range(3):
        for i, cell in enumerate(drawn.whole.cells[b].tolist()):
            mask = masks[drawn.whole.shape[b, cell]]
            wanted = torch.tensor(scenes.PALETTE)[drawn.whole.colour[b, cell]] * 1.8 - 1
            for t in range(T):
                tile = (
                    drawn.pixels[b, t].unfold(1, 16, 16).unfold(2, 16, 16)[:, cell // 8, cell % 8]
                )
                inside = mask.clone()
                inside[[0, 0, 1, 1, 14, 14, 15, 15], [0, 15, 0, 15, 0, 15, 0, 15]] = False
                off = (tile[:, inside].mean(1) - wanted).abs().max()
                there = drawn.begin[b, i] <= t < drawn.end[b, i]
                assert (off < 0.35) == bool(there), (b, i, t, off)


def test_what_a_question_needs_is_there_in_the_frame_that_is_named(drawn):
    asked = scenes.ask(drawn.whole, 8, torch.Generator().manual_seed(2))
    tokens = clips.moments(drawn, asked.needed)
    for b in range(3):
        cells = drawn.whole.cells[b].tolist()
        for q in range(8):
            frames = []
            for needed, token in zip(
                asked.needed[b, q].tolist(), tokens[b, q].tolist(), strict=True
            ):
                i = cells.index(needed)
                assert token % P == needed
                assert drawn.begin[b, i] <= token // P < drawn.end[b, i]
                frames.append(range(int(drawn.begin[b, i]), int(drawn.end[b, i])))
            if set(frames[0]) & set(frames[1]):
                assert len({token // P for token in tokens[b, q].tolist()}) == 1


def test_a_patch_has_one_position_in_all_frames(drawn):
    llava = load_llava(sized("scenes"))
    asked = scenes.ask(drawn.whole, 2, torch.Generator().manual_seed(2))
    seen = randn(3, T, P, llava.config.text_config.hidden_size, seed=4)
    prompt = clips.prompts(llava, drawn, asked, seen)
    assert prompt.places.shape == (6, 1 + T * P + 2)
    assert prompt.places[0, 0] == 0
    for t in range(T):
        for p in range(P):
            assert prompt.places[3, 1 + t * P + p] == 1 + p
            torch.testing.assert_close(prompt.embeds[3, 1 + t * P + p], seen[1, t, p])
    assert prompt.places[0, -2:].tolist() == [1 + P, 2 + P]


def context(frames=4, patches=5, rows=2, seed=0):
    """A choice over few tokens: features that change little but at some places."""
    v = randn(rows, 1, patches, 3, seed=seed) + 0.3 * randn(rows, frames, patches, 3, seed=seed + 1)
    n = frames * patches
    return SimpleNamespace(
        vision=SimpleNamespace(features=v.flatten(1, 2)),
        patches=torch.arange(n).expand(rows, n),
        generator=torch.Generator().manual_seed(0),
        needed=torch.tensor([[3, 16], [7, 8]]),
    )


@pytest.mark.parametrize("k", [5, 9, 20])
def test_merging_over_time_is_its_equation_in_loops(k):
    given = context()
    found = clips.over_time(given, k, frames=4)
    for row in range(2):
        v = given.vision.features[row]
        likeness = sorted(
            (float(F.cosine_similarity(v[5 * t + p], v[5 * t - 5 + p], dim=0)), 5 * t + p)
            for t in range(1, 4)
            for p in range(5)
        )
        begins = {*range(5), *(i for _, i in likeness[: k - 5])}
        runs = {}
        for p in range(5):
            for t in range(4):
                if 5 * t + p in begins:
                    begin = 5 * t + p
                runs.setdefault(begin, []).append(v[5 * t + p])
        assert found.index[row].tolist() == sorted(runs)
        for j, begin in enumerate(sorted(runs)):
            wanted = torch.stack(runs[begin]).mean(0)
            torch.testing.assert_close(found.features[row, j], wanted)
            assert float(found.bias[row, j].exp()) == pytest.approx(len(runs[begin]))


def test_whole_frames_are_those_that_were_to_be_chosen():
    given = context()
    frames = {
        chosen: (clips.whole_frames(given, 10, frames=4, chosen=chosen) // 5).tolist()
        for chosen in ("uniform", "random", "oracle")
    }
    assert frames["uniform"] == [[1] * 5 + [3] * 5] * 2
    assert all(len(set(row)) == 2 for row in frames["random"])
    assert set(frames["oracle"][0]) == {0, 3}  # tokens 3 and 16 are of frames 0 and 3
    assert 1 in frames["oracle"][1]
    one = clips.whole_frames(given, 5, frames=4, chosen="oracle")
    assert one[0].tolist() == [15, 16, 17, 18, 19]  # the frame with the answer comes first
    for call, message in (
        (lambda: clips.whole_frames(given, 7, frames=4, chosen="random"), "a multiple, not 7"),
        (lambda: clips.over_time(given, 4, frames=4), "a token a place, 5; 4 are fewer"),
        (lambda: clips.over_time(given, 6, frames=3), "20 visual tokens are not 3 frames"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_a_clip_of_one_frame_that_stands_still_is_read_as_the_image(drawn):
    """Positions and words are those of an image: the loop gives what it gives for the picture."""
    llava = load_llava(sized("scenes"))
    asked = scenes.ask(drawn.whole, 2, torch.Generator().manual_seed(2))
    pixels = drawn.pixels[:, 0]
    with torch.no_grad():
        seen = llava.model.multi_modal_projector(encode(llava, pixels).features)
        found = read(llava, clips.prompts(llava, drawn, asked, seen[:, None])).logits
        image = clips.toy.prompts(scenes.replace(drawn.whole, pixels=pixels), asked)
        torch.testing.assert_close(found, read(llava, image).logits, atol=1e-5, rtol=1e-5)
        # The same frame again and again, merged over time, is one frame but for the sizes.
        prompt = clips.prompts(llava, drawn, asked, seen[:, None].expand(-1, 3, -1, -1))
        merged = read(llava, prompt, [Stage(BEFORE, P, clips.ways(3)["over_time"])])
        uniform = read(llava, prompt, [Stage(BEFORE, P, clips.ways(3)["uniform_frames"])])
    assert merged.counts == uniform.counts == [1 + P + 2] * 4
    torch.testing.assert_close(merged.entered.features, uniform.entered.features)
    torch.testing.assert_close(merged.entered.bias.exp(), torch.full((6, P), 3.0))
