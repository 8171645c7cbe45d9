"""Merging inside of a tower against ToMe's description, written again in loops over tokens."""

import math

import pytest
import torch

from methods.errors import InputError
from methods.kit.seeds import randn
from methods.token_pruning import bench_vit, merging
from methods.token_pruning.llava import load_llava, sized


def loops(keys, r, *, cls):
    """For one image: who goes and into whom, by the paper's words."""
    unit = [key / key.norm() for key in keys]
    even, odd = range(0, len(keys), 2), range(1, len(keys), 2)
    found = []
    for a in even:
        if cls and a == 0:
            continue
        best = max(odd, key=lambda b, a=a: float(unit[a] @ unit[b]))
        found.append((float(unit[a] @ unit[best]), a, best))
    return {a: b for _, a, b in sorted(found, reverse=True)[:r]}


def joined(x, size, pairs):
    """Tokens of one image after merging, in their order, with their sizes."""
    out, sizes = [], []
    for i in range(len(x)):
        if i in pairs:
            continue
        total, weight = x[i] * size[i], size[i]
        for a, b in pairs.items():
            if b == i:
                total, weight = total + x[a] * size[a], weight + size[a]
        out.append(total / weight)
        sizes.append(weight)
    return torch.stack(out), torch.stack(sizes)


@pytest.mark.parametrize(
    ("n", "r", "cls"), [(17, 5, True), (16, 8, False), (9, 4, True), (2, 0, True)]
)
def test_matched_and_merged_as_in_loops(n, r, cls):
    keys, x = randn(3, n, 6, seed=n), randn(3, n, 5, seed=n + 1)
    size = 1.0 + torch.arange(n).remainder(3).expand(3, n)
    gone, into = merging.match(keys, r, cls=cls)
    found, sizes, stay = merging.merge(x, size, gone, into)
    for row in range(3):
        pairs = loops(keys[row], r, cls=cls)
        assert dict(zip(gone[row].tolist(), into[row].tolist(), strict=True)) == pairs
        wanted, weights = joined(x[row], size[row], pairs)
        torch.testing.assert_close(found[row], wanted)
        torch.testing.assert_close(sizes[row], weights)
        assert stay[row].tolist() == [i for i in range(n) if i not in pairs]


def test_a_tower_with_merging_is_the_paper_s_layer_in_loops():
    """Layer by layer, image by image, head by head."""
    tower = load_llava(sized()).model.vision_tower
    for at, layer in enumerate(tower.encoder.layers):  # fresh ones are alike
        layer.layer_norm1.weight += 0.3 * randn(tower.config.hidden_size, seed=2 * at)
        layer.layer_norm2.weight += 0.3 * randn(tower.config.hidden_size, seed=2 * at + 1)
    pixels = randn(2, 3, *[tower.config.image_size] * 2, seed=3)
    fewer = [5, 3, 2][: len(tower.encoder.layers)]
    found, sizes = merging.merged_states(tower, pixels, fewer)
    for row in range(2):
        with torch.no_grad():
            h = tower.pre_layrnorm(tower.embeddings(pixels[row : row + 1]))[0]
            size = torch.ones(len(h))
            for at, layer in enumerate(tower.encoder.layers):
                attention, inside = layer.self_attn, layer.layer_norm1(h)
                d = attention.head_dim
                q, k, v = (
                    attention.q_proj(inside),
                    attention.k_proj(inside),
                    attention.v_proj(inside),
                )
                out = torch.zeros_like(h)
                for head in range(attention.num_heads):
                    of = slice(head * d, head * d + d)
                    for i in range(len(h)):
                        logits = (k[:, of] @ q[i, of]) / math.sqrt(d) + size.log()
                        out[i, of] = logits.softmax(0) @ v[:, of]
                h = h + attention.out_proj(out)
                if at < len(fewer):
                    keys = k.unflatten(1, (attention.num_heads, d)).mean(1)
                    h, size = joined(h, size, loops(keys, fewer[at], cls=True))
                h = h + layer.mlp(layer.layer_norm2(h))
        torch.testing.assert_close(found[row], h, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(sizes[row], size)


def test_a_schedule_halves_at_most_and_has_the_mean_that_was_asked_for():
    for mean in (49, 36, 25, 16, 64):
        left, counts = 64, []
        for r in merging.schedule(64, 6, mean):
            assert 0 <= r <= left // 2
            left -= r
            counts.append(left)
        assert sum(counts) / 6 == pytest.approx(mean, abs=1)
    with pytest.raises(InputError, match=r"a mean of 3 tokens; 10.5 to 64 can be had"):
        merging.schedule(64, 6, 3)


def test_what_it_is_compared_with_keeps_cls_and_the_number_of_tokens():
    h, keys, size = randn(2, 17, 4, seed=1), randn(2, 17, 3, seed=2), torch.ones(2, 17)
    draw = torch.Generator().manual_seed(0)
    kept, sizes = merging.dropped(draw, h, size, keys, 12)
    assert kept.shape == (2, 5, 4)
    assert torch.equal(kept[:, 0], h[:, 0])
    assert (sizes == 1).all()
    rows = [[int((h[b] == one).all(1).nonzero()) for one in kept[b]] for b in (0, 1)]
    assert rows == [sorted(set(row)) for row in rows]
    merged, sizes = merging.by_chance(draw, h, size, keys, 5)
    assert torch.equal(merged[:, 0], h[:, 0])
    torch.testing.assert_close((merged * sizes[..., None]).sum(1), h.sum(1))
    pooled, sizes = merging.pooled(h, size, keys, 12)
    torch.testing.assert_close(pooled[:, 1], h[:, [1, 2, 5, 6]].mean(1))  # the first of 2 x 2 cells
    assert sizes.tolist() == [[1, 4, 4, 4, 4]] * 2
    with pytest.raises(InputError, match="pooling makes a square of a square, not 5 tokens of 16"):
        merging.pooled(h, size, keys, 11)
    with pytest.raises(InputError, match="9 of 17 tokens cannot be merged at once, half can"):
        merging.match(keys, 9, cls=True)


def test_the_classifier_with_nothing_merged_is_the_classifier():
    model = bench_vit.Classifier().eval()
    images, labels, held_out, _ = bench_vit.digits(0, 450)
    assert (len(images), len(held_out)) == (1347, 450)
    assert sorted(set(labels.tolist())) == list(range(10))
    with torch.no_grad():
        wanted = model(held_out[:8])
    found = model.merged(held_out[:8], [], merging.alike, False)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_every_way_leaves_as_many_tokens_on_average():
    made = bench_vit.plans(6, (7, 4), torch.Generator())
    for (_, mean), (fewer, _, _) in made.items():
        left, total = 64, 0
        for layer in range(6):
            left -= fewer[layer] if layer < len(fewer) else 0
            total += left
        assert total / 6 == pytest.approx(mean, abs=1)
