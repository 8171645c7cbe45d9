import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.errors import InputError
from methods.sparse_attention import kernel, portable
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import LocalGroup, SparseAttentionConfig
from methods.sparse_attention.oracle import group_mask, masked_attention, oracle_attention

CONFIG = SparseAttentionConfig(local_heads=4, global_heads=2)


def qkv(batch: int = 1, heads: int = 6, n: int = 50, d: int = 16) -> list[torch.Tensor]:
    return [torch.randn(batch, heads, n, d) for _ in range(3)]


@st.composite
def configs(draw: st.DrawFn) -> SparseAttentionConfig:
    return SparseAttentionConfig(
        local_heads=draw(st.sampled_from([0, 2, 4])),
        global_heads=draw(st.sampled_from([1, 2])),
        window_size=draw(st.integers(1, 400)),
        adaptive_window=False,
        global_token_ratio=draw(st.sampled_from([1.0, 0.5, 0.1, 0.03])),
        window_sizes=draw(st.sampled_from([(), (9, 130)])),
    )


@settings(max_examples=40)
@given(
    config=configs(),
    n=st.integers(1, 420),
    batch=st.integers(1, 3),
    seed=st.integers(0, 2**31),
    flash=st.booleans(),
)
def test_any_configuration_agrees_with_the_oracle(
    config: SparseAttentionConfig, n: int, batch: int, seed: int, flash: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not flash:
            patch.setattr(portable, "FLASH", "no_such_operator")
        agrees(config, n, batch, seed)


def agrees(config: SparseAttentionConfig, n: int, batch: int, seed: int) -> None:
    torch.manual_seed(seed)
    inputs = [x.double().requires_grad_() for x in qkv(batch, config.heads, n, 8)]
    grad = torch.randn(batch, config.heads, n, 8, dtype=torch.float64)
    out = sparse_attention(*inputs, config, backend="portable")
    wanted = oracle_attention(*inputs, config)
    torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-9)
    for found, exact in zip(
        torch.autograd.grad(out, inputs, grad),
        torch.autograd.grad(wanted, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(found, exact, rtol=1e-8, atol=1e-8)


def test_the_oracle_agrees_with_a_loop() -> None:
    q, k, v = (x[0, 0].double() for x in qkv(n=9, d=4))
    out = masked_attention(q, k, v, group_mask(LocalGroup(0, 1, 3), 9))
    for i in range(9):
        keys = range(max(0, i - 2), i + 1)
        weights = torch.stack([(q[i] @ k[j] / 2).exp() for j in keys])
        expected = sum(w * v[j] for w, j in zip(weights / weights.sum(), keys, strict=True))
        torch.testing.assert_close(out[i], expected)


def test_a_row_without_keys_is_zero_with_zero_gradient() -> None:
    q, k, v = (x.double().requires_grad_() for x in qkv(n=4))
    mask = torch.tensor([[False] * 4] + [[True] * 4] * 3)
    out = masked_attention(q, k, v, mask)
    assert (out[:, :, 0] == 0).all()
    grads = torch.autograd.grad(out.sum(), [q, k, v])
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][:, :, 0] == 0).all()


def test_strided_inputs_and_a_layout_that_projects_without_a_copy() -> None:
    packed = torch.randn(2, 70, 3 * 6 * 16, requires_grad=True)
    q, k, v = (x.unflatten(2, (6, 16)).transpose(1, 2) for x in packed.chunk(3, 2))
    out = sparse_attention(q, k, v, CONFIG)
    assert out.transpose(1, 2).flatten(2).data_ptr() == out.data_ptr()
    assert relative_error(out, oracle_attention(q, k, v, CONFIG)) < 1e-5
    odd = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]  # d is not last
    torch.testing.assert_close(sparse_attention(*odd, CONFIG), out)
    out.sum().backward()
    assert packed.grad is not None
    assert packed.grad.isfinite().all()


def test_pytorch_s_private_kernel_is_there_and_needed_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = qkv()
    assert hasattr(torch.ops.aten, portable.FLASH)
    assert hasattr(torch.ops.aten, portable.FLASH + "_backward")
    before = sparse_attention(q, k, v, CONFIG)
    monkeypatch.setattr(kernel, "loaded", lambda: False)
    monkeypatch.setattr(portable, "FLASH", "no_such_operator")
    torch.testing.assert_close(sparse_attention(q, k, v, CONFIG), before)


def test_the_reference_backend_returns_the_input_s_dtype() -> None:
    q, k, v = (x.half() for x in qkv())
    assert sparse_attention(q, k, v, CONFIG, backend="reference").dtype == torch.float16


def test_autocast_of_a_model_reaches_the_operator_in_bfloat16() -> None:
    layer = torch.nn.Linear(96, 3 * 96)
    with torch.autocast("cpu", torch.bfloat16):
        q, k, v = (
            x.unflatten(2, (6, 16)).transpose(1, 2)
            for x in layer(torch.randn(1, 40, 96)).chunk(3, 2)
        )
        assert sparse_attention(q, k, v, CONFIG).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q[0], k, v), "batch, heads, n, d_head"),
        (lambda q, k, v: (q[:, :, :0], k[:, :, :0], v[:, :, :0]), "empty"),
        (lambda q, k, v: (q, k[:, :, :9], v), "alike"),
        (lambda q, k, v: (q, k, v[..., :8]), "alike"),
        (lambda q, k, v: (q, k[:, :, :9], v[:, :, :9]), "50 queries have 9 keys"),
        (lambda q, k, v: (q, k.double(), v), "one dtype"),
        (lambda q, k, v: (q.int(), k.int(), v.int()), "one dtype"),
        (lambda q, k, v: (q, k.to("meta"), v), "q, k and v are on cpu, meta and cpu"),
        (lambda q, k, v: (q, k[:, :4], v[:, :4]), "evenly"),
        (lambda q, k, v: (q[:, :5], k[:, :5], v[:, :5]), "the model has 5 heads"),
    ],
)
def test_inputs_that_do_not_fit_are_explained(change: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparse_attention(*change(*qkv()), CONFIG)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_lengths": torch.tensor([51])}, "0 .. 50"),
        ({"key_lengths": torch.tensor([-1])}, "0 .. 50"),
        ({"key_lengths": torch.tensor([5, 5])}, "integers"),
        ({"key_lengths": torch.tensor([5.0])}, "integers"),
        ({"key_lengths": torch.tensor([True])}, "integers"),
        ({"context": 0}, "context must be at least 1 token, not 0"),
        ({"context": 0, "backend": "reference"}, "context must be at least 1 token, not 0"),
        ({"padding_side": "top"}, "padding_side"),
        ({"backend": "tpu"}, "backend"),
    ],
)
def test_options_that_do_not_fit_are_explained(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparse_attention(*qkv(), CONFIG, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["auto", "portable"])
def test_gradients_of_scores_too_large_for_their_logsumexp_are_right(backend: str) -> None:
    """Scores of a hundred thousand: the softmax is taken anew, and is one key's alone."""
    q, k, v = (scale * x for scale, x in zip((300, 300, 1), qkv(n=60), strict=True))
    inputs, grad = [x.requires_grad_() for x in (q, k, v)], torch.randn(1, 6, 60, 16)
    out = sparse_attention(*inputs, CONFIG, backend=backend)  # type: ignore[arg-type]
    found = torch.autograd.grad(out, inputs, grad)
    exact = torch.autograd.grad(oracle_attention(*inputs, CONFIG), inputs, grad.double())
    assert max(map(relative_error, found, exact)) < 1e-3
    assert exact[2].norm() > 10


def test_gradients_of_half_precision_are_summed_in_single() -> None:
    """Each of 60 anchors has its gradient from up to 19 tiles; in bfloat16 they lose 0.006."""
    config = SparseAttentionConfig(0, 1, global_token_ratio=0.01)
    q, k, v, grad = (torch.randn(1, 1, 6000, 16).bfloat16() for _ in range(4))
    inputs = [x.requires_grad_() for x in (0.1 * q, k, v)]
    out = sparse_attention(*inputs, config, backend="portable")
    _, *found = torch.autograd.grad(out, inputs, grad)
    _, *exact = torch.autograd.grad(oracle_attention(*inputs, config), inputs, grad.double())
    assert max(map(relative_error, found, exact)) < 0.0055


@pytest.mark.parametrize("backend", ["auto", "portable", "flex"])
def test_what_is_kept_of_one_call_serves_another(backend: str) -> None:
    """Plans, masks and ranges made where nothing is to be learnt, or by another default device."""
    for n, around in ((61, torch.inference_mode()), (62, torch.device("meta"))):
        plain, inputs = qkv(n=n), [x.requires_grad_() for x in qkv(n=n)]
        with around:
            if backend != "flex" or n == 61:  # FlexAttention has tensors of its own
                sparse_attention(*plain, CONFIG, backend=backend)  # type: ignore[arg-type]
        out = sparse_attention(*inputs, CONFIG, backend=backend)  # type: ignore[arg-type]
        assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


def test_a_model_that_is_compiled_calls_it_as_it_is() -> None:
    torch.compiler.reset()
    compiled = torch.compile(
        lambda q, k, v: sparse_attention(2 * q, k, v, CONFIG) + 1, backend="eager"
    )
    q, k, v = (x.requires_grad_() for x in qkv(n=30))
    out, wanted = compiled(q, k, v), sparse_attention(2 * q, k, v, CONFIG) + 1
    torch.testing.assert_close(out, wanted)
    pairs = zip(*(torch.autograd.grad(y.sum(), [q, k, v]) for y in (out, wanted)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_padding_receives_no_gradient() -> None:
    q, k, v = (x.requires_grad_() for x in qkv(2))
    for side, pad in (("right", slice(20, 50)), ("left", slice(0, 30))):
        out = sparse_attention(
            q,
            k,
            v,
            CONFIG,
            key_lengths=torch.tensor([50, 20]),
            padding_side=side,  # type: ignore[arg-type]
        )
        for grad in torch.autograd.grad(out.square().sum(), [q, k, v]):
            assert (grad[1, :, pad] == 0).all()
            assert (grad[0] != 0).any()


def test_a_window_that_follows_the_length_would_change_the_past() -> None:
    q, k, v = qkv(n=700)
    long = sparse_attention(q, k, v, CONFIG)
    short = sparse_attention(*(x[:, :, :600] for x in (q, k, v)), CONFIG)
    assert (long[:, :, :600] - short).abs().max() > 1e-2  # hence `context`
