"""NSA's layer: its branches by their equations, causal, trainable."""

import pytest
import torch

from methods.errors import InputError
from methods.sparse_attention.nsa import NativeSparseAttention


def layer(**sizes):
    torch.manual_seed(0)
    plain = {"heads": 4, "kv_heads": 2, "block": 8, "top": 2, "window": 12}
    return NativeSparseAttention(64, **plain | sizes)


def test_nothing_later_changes_an_output_and_a_prefix_equals_the_whole():
    net, x = layer(), torch.randn(2, 90, 64)
    whole = net(x)
    changed = net(torch.cat([x[:, :61], 30 * x[:, 61:]], 1))
    torch.testing.assert_close(changed[:, :61], whole[:, :61], rtol=0, atol=1e-6)
    for n in (1, 7, 8, 61):
        torch.testing.assert_close(net(x[:, :n]), whole[:, :n], rtol=1e-5, atol=1e-5)


def test_the_gate_mixes_three_branches():
    net, x = layer(top=99, window=999), torch.randn(1, 40, 64)
    with torch.no_grad():
        net.gate.weight.zero_()
        net.gate.bias.copy_(torch.tensor([-99.0] * 4 + [99.0] * 4 + [-99.0] * 4))
    q = net._split(net.query(x))
    k, v = (net._split(part(x).chunk(3, 2)[1]) for part in (net.keys, net.values))
    dense = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    wanted = net.out(dense.transpose(1, 2).flatten(2))
    torch.testing.assert_close(net(x), wanted)  # selected alone, and it reads all
    with torch.no_grad():
        net.gate.bias.copy_(torch.tensor([99.0] * 4 + [-99.0] * 8))
    found, i, h = net(x), 39, 3
    k, v = (net._split(part(x).chunk(3, 2)[0]) for part in (net.keys, net.values))
    blocks = [(k[0, 1, 8 * c : 8 * c + 8], v[0, 1, 8 * c : 8 * c + 8]) for c in range(4)]
    keys = torch.stack([net.compress_key(one.flatten()) for one, _ in blocks])
    values = torch.stack([net.compress_value(one.flatten()) for _, one in blocks])
    weights = torch.softmax(keys @ q[0, h, i] / 4, 0)
    heads = net.out.weight.new_zeros(4, 16)
    heads[h] = weights @ values
    assert found.shape == x.shape
    # The last query's own block, 4, is not complete: head 3 reads the four before it.
    compressed, _ = net._compressed(q, k, v)
    torch.testing.assert_close(compressed[0, h, i], heads[h])


def test_it_trains_and_refuses_heads_that_do_not_fit():
    net = layer()
    net(torch.randn(1, 50, 64)).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    with pytest.raises(InputError, match="do not fit"):
        layer(kv_heads=3)
