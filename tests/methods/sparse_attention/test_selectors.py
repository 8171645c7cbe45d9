"""Every selector against its equation in loops; none looks ahead, a prefix chooses as the whole."""

import itertools
import math
import subprocess
import sys

import pytest
import torch

from methods.errors import InputError
from methods.sparse_attention import checks, definitions, selectors
from methods.sparse_attention.block_sparse import block_sparse_attention
from methods.sparse_attention.selectors import SELECTORS

BY_QUERY = [
    selectors.WindowAndSinks(window=3, key_block=8),
    selectors.Strided(stride=3, window=2, key_block=8),
    selectors.MeanPooled(top=2, key_block=8),
    selectors.PageBounds(top=2, key_block=8),
    selectors.TopP(p=0.6, most=6, key_block=8),
    selectors.ExactTopK(2, key_block=8),
]
BY_BLOCK = [selectors.Antidiagonal(block=16, stride=4), selectors.VerticalSlash(2, 2, 8, 16)]


def given(n: int = 100, d: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 4, n, d), torch.randn(2, 2, n, d)


def chosen(blocks: torch.Tensor) -> list[set[int]]:
    """The choices of the first sample's first choosing head."""
    return [set(row.tolist()) - {-1} for row in blocks[0, 0]]


@pytest.mark.parametrize("selector", BY_QUERY, ids=lambda s: type(s).__name__)
def test_nothing_later_changes_a_choice_and_decoding_chooses_as_the_full_pass(selector):
    q, k = given()
    whole = chosen(selector(q, k))
    changed = selector(q, torch.cat([k[:, :, :61], 50 * k[:, :, 61:]], dim=2))
    assert chosen(changed)[:61] == whole[:61]
    for n in (1, 7, 8, 9, 64, 100):
        assert chosen(selector(q[:, :, :n], k[:, :, :n])) == whole[:n]
        assert chosen(selector(q[:, :, n - 1 : n], k[:, :, :n])) == whole[n - 1 : n]
    for i, row in enumerate(whole):
        assert max(row) <= i // selector.key_block  # nothing of the future
        if selector.key_block > 1:
            assert i // selector.key_block in row


@pytest.mark.parametrize("selector", BY_BLOCK, ids=lambda s: type(s).__name__)
def test_a_prompt_s_blocks_read_themselves_and_no_later_ones(selector):
    for n in (100, 96, 10):
        rows = chosen(selector(*given(n)))
        assert len(rows) == math.ceil(n / 16)
        assert all(c in row and max(row) <= c for c, row in enumerate(rows))
    with pytest.raises(InputError, match="as many queries"):
        selector(given()[0][:, :, -1:], given()[1])


def test_window_and_sinks_are_the_first_and_the_last_blocks():
    rows = chosen(selectors.WindowAndSinks(2, 1, key_block=8)(*given(40)))
    assert rows[39] == {0, 3, 4}
    assert rows[16] == {0, 1, 2}
    assert rows[0] == {0}
    joint = chosen(selectors.WindowAndSinks(2, 1, key_block=8, query_block=16)(*given(40)))
    assert [row & set(range(5)) for row in joint] == [{0, 1}, {0, 1, 2, 3}, {0, 3, 4}]


def test_strided_reads_every_third_block():
    assert chosen(selectors.Strided(3, 1, key_block=4)(*given(40)))[38] == {0, 3, 6, 9}


def test_mean_pooled_follows_moba():
    q, k = given()
    rows = chosen(selectors.MeanPooled(top=2, sinks=0, key_block=8)(q, k))
    for i in (30, 77, 99):
        past = range(i // 8)
        query = q[0, :2, i].mean(0)
        scores = {c: float(query @ k[0, 0, 8 * c : 8 * c + 8].mean(0)) for c in past}
        best = sorted(past, key=lambda c: -scores[c])[:2]
        assert rows[i] == {*best, i // 8}


def test_page_bounds_follow_quest():
    q, k = given()
    rows = chosen(selectors.PageBounds(top=2, sinks=0, key_block=8)(q, k))
    for i in (30, 77, 99):
        scores = {}
        for c in range(i // 8):
            page = k[0, 0, 8 * c : 8 * c + 8]
            bounds = page.min(0).values, page.max(0).values
            # The two query heads that share a key head add up.
            scores[c] = sum(
                float(torch.maximum(*(q[0, h, i] * bound for bound in bounds)).sum())
                for h in (0, 1)
            )
        best = sorted(scores, key=lambda c: -scores[c])[:2]
        assert rows[i] == {*best, i // 8}


def test_top_p_takes_the_fewest():
    q, k = given()
    rows = chosen(selectors.TopP(p=0.5, most=99, sinks=0, key_block=8)(q, k))
    for i in (30, 99):
        query = q[0, :2, i].mean(0)
        past = torch.stack([k[0, 0, 8 * c : 8 * c + 8].mean(0) for c in range(i // 8)])
        shares = torch.softmax(past @ query / 4, 0)
        best: list[int] = []
        for c in shares.argsort(descending=True).tolist():
            if sum(float(shares[b]) for b in best) < 0.5:
                best.append(c)
        assert rows[i] == {*best, i // 8}


def test_antidiagonal_sums_and_the_fewest_blocks():
    q, k = torch.randn(1, 1, 64, 16), torch.randn(1, 1, 64, 16)
    rows = chosen(selectors.Antidiagonal(p=0.8, stride=4, block=16)(q, k))
    products = q[0, 0] @ k[0, 0].T
    tiles = torch.tensor(
        [
            [sum(products[4 * a + r, 4 * b + 3 - r] for r in range(4)) for b in range(16)]
            for a in range(16)
        ]
    ) / (4 * 4)
    tiles = tiles.masked_fill(torch.ones(16, 16).triu(1).bool(), -math.inf)
    shares = torch.softmax(tiles, 1).view(4, 4, 4, 4).sum((1, 3))
    for row, found in zip(shares / shares.sum(1, keepdim=True), rows, strict=True):
        order = row.argsort(descending=True).tolist()
        count = next(m for m in range(1, 5) if sum(float(row[c]) for c in order[:m]) >= 0.8)
        assert set(order[:count]) <= found
        assert len(found - set(order[:count])) <= 1  # its own


def test_vertical_lines_and_slashes_of_a_made_pattern_are_found():
    """All queries read key 40 and, less, the key 48 before them."""
    n, at = 160, torch.arange(160)
    k = torch.eye(n)[None, None]
    q = torch.nn.functional.one_hot(at.sub(48).clamp(min=0), n) * 8.0
    q[:, 40] += 10.0
    q = (q * n**0.5)[None, None]
    rows = chosen(selectors.VerticalSlash(1, 3, 16, 16)(q, k))
    assert {2, 6} <= rows[9]
    assert {2, 4} <= rows[7]


def test_local_windows_of_video_are_the_tiles_around():
    selector = selectors.Local3d((8, 4, 4), tile=(2, 2, 2), window=(3, 1, 3))
    order = selector.order()
    assert sorted(order.tolist()) == list(range(128))
    place = [divmod(token, 16) for token in order[8:16].tolist()]  # the second tile
    assert {(t, *divmod(rest, 4)) for t, rest in place} == set(
        itertools.product((0, 1), (0, 1), (2, 3))
    )
    rows = chosen(selector(*given(128)))
    assert rows[4] == {0, 1, 4, 5, 8, 9}  # tile (1, 0, 0) of 4 x 2 x 2
    assert rows[0] == rows[4]  # at the edge the window moves inside
    assert rows[12] == rows[8] == {4, 5, 8, 9, 12, 13}  # at the other edge, too
    with pytest.raises(InputError, match="whole tiles"):
        selectors.Local3d((7, 4, 4), (2, 2, 2))


def test_radial_windows_thin_with_the_distance_in_time():
    """By the definition, pair by pair: 9 frames of 4 blocks, the first frame read by all."""
    rows = chosen(selectors.Radial(9, frame=32, block=8)(*given(9 * 32)))
    for a, b in itertools.product(range(36), repeat=2):
        apart, aside = abs(a // 4 - b // 4), abs(a % 4 - b % 4)
        thinning = 1 if apart < 2 else 2 if apart < 4 else 4 if apart < 8 else 8
        near = aside + 1 <= 4 / thinning
        again = aside == 0 and apart % math.ceil(thinning / 4) == 0
        assert (b in rows[a]) == (near or again or b < 4)


def test_exact_scores_find_the_block_of_the_best_key():
    q, k = torch.zeros(1, 1, 40, 4), torch.randn(1, 1, 40, 4) * 0.01
    q[0, 0, 39] = k[0, 0, 13] = torch.tensor([5.0, 0, 0, 0])
    k[0, 0, 12], k[0, 0, 14] = -k[0, 0, 13], -k[0, 0, 13]  # whose mean would hide it
    assert chosen(selectors.ExactTopK(1, key_block=8)(q, k))[39] == {0, 1, 4}
    assert chosen(selectors.MeanPooled(1, key_block=8)(q, k))[39] != {0, 1, 4}


def test_block_top_k_of_video_takes_the_best_means():
    q, k = given(70)
    rows = chosen(selectors.BlockTopK(top=2, block=16)(q, k))
    queries, keys = q[0, :2].mean(0), k[0, 0]
    for a in range(5):
        query = queries[16 * a : 16 * a + 16].mean(0)
        scores = [float(query @ keys[16 * c : 16 * c + 16].mean(0)) for c in range(5)]
        assert rows[a] == set(sorted(range(5), key=lambda c: -scores[c])[:2])


@pytest.mark.parametrize("selector", [*BY_QUERY, *BY_BLOCK], ids=lambda s: type(s).__name__)
def test_with_room_for_all_blocks_it_is_dense_attention(selector):
    """A selector changes nothing but the blocks that it leaves out."""
    wide = {"window": 99, "top": 999, "p": 2.0, "most": 99, "vertical": 99, "slash": 99, "kept": 99}
    fields = {name: wide[name] for name in wide if hasattr(selector, name)}
    selector = type(selector)(**(vars(selector) | fields))
    q, k = given(90)
    sizes = {"query_block": selector.query_block, "key_block": selector.key_block}
    out = block_sparse_attention(q, k, k, selector(q, k), **sizes)
    dense = block_sparse_attention(q, k, k, None)
    torch.testing.assert_close(out, dense)


def test_the_package_exports_what_people_import_and_loads_it_when_used():
    """In a process of its own, as this one has loaded torch."""
    code = """
import sys, methods.sparse_attention as package
assert "torch" not in sys.modules
for name in package._MODULES:
    assert getattr(package, name).__name__ == name
from methods.sparse_attention import SELECTOR_NAMES
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot import name 'SELECTOR_NAMES'" in done.stderr


@pytest.mark.parametrize("sinks", [0, 2, 3])
@pytest.mark.parametrize("name", ["window_sinks", "mean_pooled", "page_bounds", "top_p", "exact"])
def test_so_many_first_blocks_are_read_besides(name, sinks):
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 96, 16), torch.randn(1, 1, 96, 16)
    selector = SELECTORS[name](**(checks.FEW[name] | {"sinks": sinks}))
    expected = getattr(definitions, name)(selector, q[0], k[0, 0])
    for i, (blocks, right) in enumerate(zip(selector(q, k)[0, 0].tolist(), expected, strict=True)):
        assert {c for c in blocks if 0 <= c <= i // selector.key_block} == right


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize(("query_block", "key_block"), [(2, 3), (3, 2), (5, 4), (4, 9)])
@pytest.mark.parametrize("name", ["window_sinks", "strided"])
def test_a_block_of_queries_reads_what_each_of_them_reads(name, query_block, key_block, late):
    q, k = torch.zeros(1, 1, 41 - late, 4), torch.zeros(1, 1, 41, 4)
    selector = SELECTORS[name](window=2, key_block=key_block, query_block=query_block)
    alone = getattr(definitions, name)(selector, q[0], k[0, 0])  # by position, for all 41
    for i, blocks in enumerate(selector(q, k)[0, 0].tolist()):
        first = late + i * query_block
        queries = range(first, min(first + query_block, 41))
        read = {c for c in blocks if 0 <= c <= queries[-1] // key_block}
        assert read == set().union(*(alone[p] for p in queries))
