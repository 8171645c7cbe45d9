"""ToMe's merging against the paper's description, in loops over tokens."""

import math

import pytest
import torch

from methods.kit.seeds import randn
from methods.token_pruning import selectors
from methods.token_pruning.core import Merger


def loops(keys, r):
    """For one image: who goes and into whom, by the paper's words."""
    unit = [key / key.norm() for key in keys]
    even, odd = range(0, len(keys), 2), range(1, len(keys), 2)
    found = []
    for a in even:
        best = max(odd, key=lambda b, a=a: float(unit[a] @ unit[b]))
        found.append((float(unit[a] @ unit[best]), a, best))
    return {a: b for _, a, b in sorted(found, reverse=True)[:r]}


class Given(Merger):
    """Patches by scores that are given."""

    def score(self, V, text, valid):
        return text[..., 0], V


@pytest.mark.parametrize("tau", [1.0, 4.0])
@torch.no_grad()
def test_tokens_are_merged_by_likeness_and_score_at_a_temperature(tau):
    """The equation in loops: centres 0 and 2, patches of one length, d = 3."""
    merger, V = Given(3), randn(1, 4, 3, seed=1)
    scores = torch.tensor([[0.9, -0.2, 0.3, 0.1]])
    merged = merger(V, scores[..., None], torch.ones(1, 4, dtype=torch.bool), 2, tau=tau)
    assert merged.index.tolist() == [[0, 2]]
    even = [(v - v.mean()) / (v.var(correction=0) + 1e-5).sqrt() for v in V[0]]
    query, key = ([part.weight @ u for u in even] for part in (merger.query, merger.key))
    shares = torch.zeros(4, 2)
    for i in range(4):
        powers = [
            math.exp(float(query[i] @ key[c]) / (3**0.5 * tau) + float(scores[0, c]))
            for c in (0, 2)
        ]
        shares[i] = torch.tensor(powers) / sum(powers)
    wanted = torch.stack([shares[:, j] @ V[0] / shares[:, j].sum() for j in range(2)])
    torch.testing.assert_close(merged.tokens[0], wanted, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize(("n", "r"), [(17, 5), (16, 8), (9, 4), (2, 0)])
def test_matched_and_merged_as_in_loops(n, r):
    keys, x = randn(3, n, 6, seed=n), randn(3, n, 5, seed=n + 1)
    size = 1.0 + torch.arange(n).remainder(3).expand(3, n)
    gone, into = selectors.match(keys, r)
    found, sizes, stay = selectors.merge(x, size, gone, into)
    for row in range(3):
        pairs = loops(keys[row], r)
        assert dict(zip(gone[row].tolist(), into[row].tolist(), strict=True)) == pairs
        wanted, weights = joined(x[row], size[row], pairs)
        torch.testing.assert_close(found[row], wanted)
        torch.testing.assert_close(sizes[row], weights)
        assert stay[row].tolist() == [i for i in range(n) if i not in pairs]
