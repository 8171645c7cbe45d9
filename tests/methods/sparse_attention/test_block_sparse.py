"""The operator on chosen blocks against its definition in float64."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from methods.errors import InputError
from methods.kit.compare import relative
from methods.sparse_attention import build_kernel, kernel
from methods.sparse_attention.block_sparse import attend, block_sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.oracle import block_mask, masked_attention
from methods.sparse_attention.pattern import Pattern, Scoring, reach


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if why := build_kernel.build():
        pytest.skip(why)
    kernel.loaded.cache_clear()
    assert kernel.loaded()


def definition(q, k, v, blocks, *, sinks=None, scale=None, softcap=0.0, **mask):
    """The float64 definition, every head with its own keys and its own mask."""
    heads, shared = q.shape[1], k.shape[1]
    if blocks is None:
        blocks = torch.arange(k.shape[2])[None, None, None].expand(1, 1, q.shape[2], -1)
        mask |= {"query_block": 1, "key_block": 1}
    seen = block_mask(blocks, q.shape[2], k.shape[2], **mask)
    seen = seen.repeat_interleave(heads // seen.shape[1], 1)
    k, v = (x.double().repeat_interleave(heads // shared, 1) for x in (k, v))
    sinks = None if sinks is None else sinks.double()[:, None, None]
    return masked_attention(q.double(), k, v, seen, scale=scale, softcap=softcap, sinks=sinks)


@st.composite
def cases(draw):
    shared, sharing = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 5]))
    heads = shared * sharing
    fitting = [g for g in range(1, heads + 1) if heads % g == 0]
    fitting = [g for g in fitting if g % shared == 0 or shared % g == 0]
    causal = draw(st.booleans())
    return {
        "batch": draw(st.integers(1, 3)),
        "shared": shared,
        "sharing": sharing,
        "choosing": draw(st.sampled_from(fitting)),
        "d": draw(st.sampled_from([8, 16, 64, 80])),
        "n_q": draw(st.sampled_from([1, 2, 30, 97])),
        "n_k": draw(st.sampled_from([1, 64, 129, 200])),
        "query_block": draw(st.sampled_from([1, 3, 7, 24, 64, 100])),
        "key_block": draw(st.sampled_from([1, 5, 16, 64])),
        "most": draw(st.integers(0, 6)),
        "causal": causal,
        "window": draw(st.none() | st.integers(1, 80)) if causal else None,
        "softcap": draw(st.sampled_from([0.0, 2.0])),
        "with_sinks": draw(st.booleans()),
        "padded": draw(st.booleans()),
        "everything": draw(st.integers(0, 9)) == 0,
        "seed": draw(st.integers(0, 2**31)),
    }


def made(case, dtype=torch.float32):
    torch.manual_seed(case["seed"])
    heads, n_q, n_k = case["shared"] * case["sharing"], case["n_q"], case["n_k"]
    q = torch.randn(case["batch"], heads, n_q, case["d"])
    k, v = (torch.randn(case["batch"], case["shared"], n_k, case["d"]) for _ in "kv")
    runs = math.ceil(n_q / case["query_block"])
    available = math.ceil(n_k / case["key_block"])
    blocks = torch.randint(-1, available, (case["batch"], case["choosing"], runs, case["most"]))
    options = {name: case[name] for name in ("query_block", "key_block", "causal", "window")}
    options["softcap"] = case["softcap"]
    if case["with_sinks"]:
        options["sinks"] = torch.randn(heads)
    if case["padded"]:
        options["key_range"] = torch.randint(0, n_k + 1, (case["batch"], 2)).sort(1).values
    if case["everything"]:
        blocks = None
    return [x.to(dtype) for x in (q, k, v)], blocks, options


def compared(case, backend, dtype=torch.float32):
    """The relative errors of the output and of each gradient."""
    inputs, blocks, options = made(case, dtype)
    leaves = [x.requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    if "sinks" in options:
        leaves.append(options["sinks"].requires_grad_())
        exact.append(options["sinks"].detach().double().requires_grad_())
    wanted_options = options | ({"sinks": exact[3]} if "sinks" in options else {})
    out = block_sparse_attention(*leaves[:3], blocks, backend=backend, **options)
    wanted = definition(*exact[:3], blocks, **wanted_options)
    grad = torch.randn(out.shape)
    found = torch.autograd.grad(out, leaves, grad.to(dtype))
    # The same rounded gradient: its rounding is no error of what is compared.
    given = grad.to(dtype).double()
    gradients = torch.autograd.grad(wanted, exact, given, allow_unused=True)
    gradients = [
        torch.zeros_like(x) if g is None else g for g, x in zip(gradients, exact, strict=False)
    ]
    return [relative_error(*pair) for pair in zip((out, *found), (wanted, *gradients), strict=True)]


@settings(max_examples=60)
@given(case=cases(), backend=st.sampled_from(["kernel", "portable"]))
def test_any_choice_agrees_with_the_definition(case, backend):
    assert max(compared(case, backend)) < 1e-5


@settings(max_examples=20)
@given(case=cases(), dtype=st.sampled_from([torch.bfloat16, torch.float16]))
def test_half_precision_goes_through_the_kernel(case, dtype):
    # With one key beside a sink dq and dk are differences of a product with the output, which is
    # stored in half precision: what is left of them is its rounding.
    assume(not (case["n_k"] == 1 and case["with_sinks"]))
    bound = 1e-2 if dtype is torch.bfloat16 else 2e-3
    assert max(compared(case, "kernel", dtype)) < bound


@pytest.mark.parametrize("backend", ["kernel", "portable"])
@pytest.mark.parametrize("d", [16, 64, 80, 128])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_long_rows_mixed_strides_and_large_scores(backend, d, scale):
    """Batch 5; more than 4,096 keys; q, k and v cut from tensors of different layouts."""
    n_q, n_k = 40, 4200
    q = torch.randn(5, n_q, 4, d).transpose(1, 2)
    k = torch.randn(5, 2, n_k, 2 * d)[..., :d]
    v = torch.randn(5, n_k, 2, d).transpose(1, 2)
    q, k, v = (x.mul_(math.sqrt(scale)) if x is not v else x for x in (q, k, v))
    blocks = torch.stack([torch.arange(66), torch.randint(66, (66,))])[None, :, None]
    options = {"query_block": n_q, "key_block": 64}
    leaves = [x.requires_grad_() for x in (q, k, v)]
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    out = block_sparse_attention(*leaves, blocks, backend=backend, **options)
    wanted = definition(*exact, blocks, **options)
    grad = torch.randn(out.shape)
    found = torch.autograd.grad(out, leaves, grad)
    gradients = torch.autograd.grad(wanted, exact, grad.double())
    # A score of 10^6 is known to 0.06 in float32, and so is its exponential.
    bound = 1e-5 * max(1.0, scale)
    for a, b in zip((out, *found), (wanted, *gradients), strict=True):
        assert relative(a, b) < bound


def test_scores_below_minus_1e30_are_no_nan():
    # A power of two: products and sums are exact in any order, so that all scores are equal.
    q, k = torch.full((1, 1, 30, 16), 2.0**53), torch.full((1, 1, 30, 16), -(2.0**53))
    leaves = [x.requires_grad_() for x in (q, k, torch.randn(1, 1, 30, 16))]
    for backend in ("kernel", "portable"):
        out = block_sparse_attention(*leaves, None, backend=backend)
        assert out.isfinite().all()
        torch.testing.assert_close(out[0, 0, 29], leaves[2][0, 0].mean(0))
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), leaves))


def test_changing_the_future_changes_nothing_and_a_prefix_equals_the_whole():
    (q, k, v), *_ = made({**PLAIN, "n_q": 200, "n_k": 200})
    blocks = torch.randint(-1, 13, (1, 2, 200, 4))
    whole = block_sparse_attention(q, k, v, blocks, key_block=16)
    changed = [x.clone() for x in (q, k, v)]
    for x in changed:
        x[:, :, 120:] *= -50
    assert torch.equal(
        block_sparse_attention(*changed, blocks, key_block=16)[:, :, :120], whole[:, :, :120]
    )
    short = [x[:, :, :120] for x in (q, k, v)]
    prefix = block_sparse_attention(*short, blocks[:, :, :120], key_block=16)
    assert torch.equal(prefix, whole[:, :, :120])
    for i in (0, 77, 199):  # decoding
        one = block_sparse_attention(
            q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1], blocks[:, :, i : i + 1],
            key_block=16,
        )  # fmt: skip
        torch.testing.assert_close(one, whole[:, :, i : i + 1])


PLAIN = {
    "batch": 1, "shared": 2, "sharing": 2, "d": 16, "choosing": 2, "n_q": 50, "n_k": 50,
    "query_block": 10, "key_block": 10, "most": 3, "causal": True, "window": None, "softcap": 0.0,
    "with_sinks": False, "padded": False, "everything": False, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["kernel", "portable"])
def test_pytorch_s_own_checks_of_an_operator(backend):
    case = {**PLAIN, "with_sinks": True, "padded": True, "batch": 2}
    (q, k, v), blocks, options = made(case)
    ranges = torch.stack([torch.zeros(50), torch.arange(50) + 1]).int()[None, None]
    sinks = options["sinks"].requires_grad_()
    leaves = [x.requires_grad_() for x in (q, k, v)]
    origins = torch.zeros(2, dtype=torch.int32)
    lists = blocks.sort(-1).values.int(), origins
    given = *leaves, ranges, *lists, sinks, [4], [1], 10, 10, 0.25, 2.0, backend
    torch.library.opcheck(torch.ops.assay.attention.default, given)
    both = ranges.expand(-1, 2, -1, -1).contiguous()  # windows of two groups, one with a stride
    both[:, 1] = torch.stack([torch.zeros(50), torch.arange(50) // 7 + 1])
    given = *leaves, both, None, None, None, [2, 2], [1, 7], 1, 1, 0.25, 0.0, backend
    torch.library.opcheck(torch.ops.assay.attention.default, given)


@pytest.mark.parametrize("backend", ["kernel", "portable", "flex"])
def test_attention_to_parts_of_the_keys_is_put_together_by_the_logsumexp(backend):
    """Its gradient counts: half of the keys each, weighted by e^L, are attention to all."""
    (q, k, v), *_ = made(PLAIN)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    read = [
        Pattern(torch.tensor([[[[a] * 50, [e] * 50]]], dtype=torch.int32), (4,), (1,))
        for a, e in ((0, 20), (20, 50))
    ]
    parts = [attend(*leaves, one, Scoring(0.25), backend) for one in read]
    shares = torch.softmax(torch.stack([lse for _, lse in parts]), 0)[..., None]
    out = sum(share * part for share, (part, _) in zip(shares, parts, strict=True))
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = definition(*exact, None, causal=False)
    grad = torch.randn(out.shape)
    found = torch.autograd.grad(out, leaves, grad)
    gradients = torch.autograd.grad(wanted, exact, grad.double())
    for a, b in zip((out, *found), (wanted, *gradients), strict=True):
        assert relative_error(a, b) < 1e-5


def test_sinks_learn_through_output_and_logsumexp():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 7, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)
    read = Pattern(reach(7, 7, offset=0, window=3, causal=True, device="cpu"), (2,), (1,))

    def attended(q, k, v, sinks):
        return attend(q, k, v, read, Scoring(0.5, 0.0, sinks), "portable")

    assert torch.autograd.gradcheck(attended, (q, k, v, sinks))


def test_it_is_compiled_exported_and_vectorised_as_a_whole():
    (q, k, v), blocks, _options = made({**PLAIN, "batch": 3})

    class Layer(torch.nn.Module):
        def forward(self, q, k, v, blocks):
            return block_sparse_attention(q, k, v, blocks, query_block=10, key_block=10) * 2

    wanted = Layer()(q, k, v, blocks)
    compiled = torch.compile(Layer(), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q, k, v, blocks), wanted)
    exported = torch.export.export(Layer(), (q, k, v, blocks)).module()
    assert torch.equal(exported(q, k, v, blocks), wanted)
    mapped = torch.vmap(Layer(), in_dims=(0, 0, None, 0))
    both = mapped(torch.stack([q, k.repeat_interleave(2, 1)]), torch.stack([k, v]), v,
                  torch.stack([blocks, blocks.flip(2)]))  # fmt: skip
    assert torch.equal(both[0], wanted)
    second = Layer()(k.repeat_interleave(2, 1), v, v, blocks.flip(2))
    torch.testing.assert_close(both[1], second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"blocks": torch.zeros(1, 3, 5, 1, dtype=torch.int64)}, "do not fit 4 heads"),
        ({"blocks": torch.zeros(1, 2, 4, 1, dtype=torch.int64)}, "must be"),
        ({"blocks": torch.zeros(1, 2, 5, 1)}, "integers"),
        ({"window": 0}, "window"),
        ({"sinks": torch.zeros(3)}, "one a head"),
        ({"softcap": -1.0}, "softcap"),
        ({"key_range": torch.tensor([[0, 51]])}, "0 .. 50"),
        ({"key_block": 0}, "at least one token"),
        ({"backend": "fast"}, "backend must be"),
        ({"v": torch.zeros(1, 2, 49, 16)}, "alike"),
        ({"q": torch.zeros(1, 3, 50, 16)}, "evenly"),
        ({"q": torch.zeros(1, 4, 50, 16, dtype=torch.float64)}, "one dtype"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(change, words):
    (q, k, v), blocks, _options = made(PLAIN)
    given = {"q": q, "k": k, "v": v, "blocks": blocks, "query_block": 10, "key_block": 10}
    with pytest.raises(InputError, match=words):
        block_sparse_attention(**given | change)


@settings(max_examples=15)
@given(case=cases())
def test_a_block_mask_of_flex_attention_agrees_with_the_definition(case):
    """FlexAttention covers no sinks, cap or padding. It has its own backward pass."""
    plain = {"softcap": 0.0, "with_sinks": False, "padded": False}
    (q, k, v), blocks, options = made(case | plain)
    out = block_sparse_attention(q, k, v, blocks, backend="flex", **options)
    assert relative_error(out, definition(q, k, v, blocks, **options)) < 1e-5
