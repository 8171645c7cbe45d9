"""Our Triton kernels: run by Triton's interpreter here, compiled for a GPU without one, run on one.

Triton chooses the interpreter when a kernel is decorated, its own included, so `tests/__init__.py`
switches it on before anything is imported; kernels are compiled in a process without it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from methods.errors import InputError
from methods.sparse_attention import checks, triton_kernels
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import GlobalGroup, LocalGroup, SparseAttentionConfig
from methods.sparse_attention.oracle import oracle_attention
from methods.sparse_attention.pattern import Scoring, of_groups
from tests.methods.sparse_attention.test_block_sparse import PLAIN, compared
from tests.methods.sparse_attention.test_block_sparse import cases as block_cases

# Of rows beyond the sequence, which are not stored, and keys that are masked.
pytestmark = pytest.mark.filterwarnings("ignore:.*(divide|log2|exp2):RuntimeWarning")
CONFIG = SparseAttentionConfig(4, 2, 40, adaptive_window=False)
TRITON_CACHE = str(Path(sys.prefix, ".triton_cache"))  # kept: to compile takes five seconds


def triton_attention(*args: torch.Tensor | SparseAttentionConfig, **more: object) -> torch.Tensor:
    return sparse_attention(*args, backend="triton", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "n", "config", "dtype"),
    [(*shape, torch.float32) for shape in checks.SHAPES]
    + [(*shape, torch.float16) for shape in checks.SHAPES[-4:]],
)
def test_every_option_agrees_with_the_oracle(
    label: str, n: int, config: SparseAttentionConfig, dtype: torch.dtype
) -> None:
    """As in the table of checks, at its tiles and a few of them: an interpreter takes its time.

    Half precision is float16: Triton's interpreter multiplies the bits of bfloat16 as integers.
    """
    given, grad = checks.draw(1, config.heads, min(n, 40), 16, device="cpu", dtype=dtype)
    inputs, exact = given.leaves(), given.each(torch.Tensor.double).leaves()
    out, wanted = triton_attention(*inputs, config), oracle_attention(*exact, config)
    found = torch.autograd.grad(out, inputs, grad)
    gradients = torch.autograd.grad(wanted, exact, grad.double())
    errors = map(relative_error, (out, *found), (wanted, *gradients))
    assert max(errors) < checks.BOUNDS[dtype]


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_kernels, "RUN", 16)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    window=st.integers(1, 90),
    ratio=st.sampled_from([1.0, 0.5, 0.1, 0.03, 1e-9]),
    local=st.sampled_from([0, 2]),
    sharing=st.sampled_from([1, 2]),
    n=st.integers(1, 80),
    d=st.sampled_from([8, 16, 24]),
    seed=st.integers(0, 2**31),
)
@example(window=10, ratio=0.1, local=2, sharing=1, n=80, d=8, seed=0)  # a tile unseen
@example(window=9, ratio=3e-10, local=2, sharing=1, n=80, d=8, seed=0)  # past 32 bits
@pytest.mark.usefixtures("_small_tiles")
def test_any_pattern_agrees_with_the_oracle(  # noqa: PLR0917 - each is drawn by its name
    window: int, ratio: float, local: int, sharing: int, n: int, d: int, seed: int
) -> None:
    """Windows below, at and above the size of a tile; query heads that share key heads."""
    torch.manual_seed(seed)
    config = SparseAttentionConfig(local, 2, window, ratio, adaptive_window=False)
    q, grad = (torch.randn(1, config.heads, n, d) for _ in range(2))
    k, v = (torch.randn(1, config.heads // sharing, n, d) for _ in range(2))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out, wanted = triton_attention(*inputs, config), oracle_attention(*inputs, config)
    assert relative_error(out, wanted) < 1e-5
    found = torch.autograd.grad(out, inputs, grad)
    exact = torch.autograd.grad(wanted, inputs, grad.double())
    assert max(map(relative_error, found, exact)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_no_scale_makes_an_infinity(scale: float, dtype: torch.dtype) -> None:
    given, grad = checks.draw(1, 6, 70, 32, device="cpu", dtype=dtype)
    inputs = given.each(lambda x: x * scale).leaves()
    out = triton_attention(*inputs, CONFIG)
    assert all(bool(x.isfinite().all()) for x in (out, *torch.autograd.grad(out, inputs, grad)))


def test_nothing_looks_into_the_future() -> None:
    """The gate of a benchmark, as it checks the kernel where there is a GPU."""
    given, grad = checks.draw(1, 6, 70, 16, device="cpu")
    cases = list(checks.at_shape(given, grad, CONFIG, "triton"))
    assert [case.label for case in cases] == [
        *("n = 70, output", "n = 70, the future", "n = 70, dQ", "n = 70, dK", "n = 70, dV")
    ]
    assert [case for case in cases if not case.passed] == []


def test_views_of_packed_projections_are_read_in_place() -> None:
    packed = torch.randn(2, 40, 3 * 6 * 16, requires_grad=True)
    q, k, v = (x.unflatten(2, (6, 16)).transpose(1, 2) for x in packed.chunk(3, 2))
    odd = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]  # d is not last
    out = triton_attention(q, k, v, CONFIG)
    assert relative_error(out, oracle_attention(q, k, v, CONFIG)) < 1e-5
    torch.testing.assert_close(triton_attention(*odd, CONFIG), out)
    (grad,) = torch.autograd.grad(out.transpose(2, 3).square().sum(), packed)
    (wanted,) = torch.autograd.grad(oracle_attention(q, k, v, CONFIG).square().sum(), packed)
    assert relative_error(grad, wanted) < 1e-5


def test_a_program_reads_the_tiles_that_its_rows_see_and_no_other() -> None:
    """Tiles that it must not read hold NaN: a value of weight 0 would show it."""
    n, window = 300, 40
    q, k, v = (torch.randn(1, 2, n, 16) for _ in "qkv")
    groups = (LocalGroup(0, 1, window), GlobalGroup(1, 2, 10))
    read = of_groups(groups, n, "cpu")
    whole, _ = triton_kernels.forward(q, k, v, read, Scoring(0.25))
    last = n // triton_kernels.RUN * triton_kernels.RUN  # the first row of the last program
    for x in (k, v):
        x[:, 0, : last - window + 1] = torch.nan
        x[:, 1, torch.arange(n) % 10 != 0] = torch.nan
    found, _ = triton_kernels.forward(q, k, v, read, Scoring(0.25))
    assert torch.equal(found[:, 0, last:], whole[:, 0, last:])
    assert torch.equal(found[:, 1], whole[:, 1])


def test_the_kernels_compile_for_a_gpu_and_spill_no_registers() -> None:
    """Half precision on tensor cores, float32 without: TF32 would lose digits."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.methods.sparse_attention.compiled"],
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": TRITON_CACHE},
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    lines = [json.loads(line) for line in said.splitlines()]
    assert len(lines) == 5
    assert [line for line in lines if line["spilled"]] == []
    assert {(line["dtype"], line["tensor_cores"]) for line in lines} == {
        ("torch.bfloat16", True),
        ("torch.float32", False),
    }


def test_what_it_cannot_do_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    q = torch.randn(1, 6, 20, 16)
    with pytest.raises(InputError, match="float64 on cpu"):
        triton_attention(q.double(), q.double(), q.double(), CONFIG)
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(InputError, match="CUDA device"):
        triton_attention(q, q, q, CONFIG)


# --- Lists of blocks -----------------------------------------------------------------------------


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(case=block_cases())
def test_lists_of_blocks_agree_with_the_definition(case: dict[str, object]) -> None:
    sizes = {name: case[name] for name in ("n_q", "n_k")}
    most = 65 if case["key_block"] == 1 else 129  # the interpreter takes a step for each block
    small = {name: min(int(str(size)), most) for name, size in sizes.items()} | {"d": 16}
    assert max(compared({**case, **small, "batch": 1}, "triton")) < 1e-5


def test_lists_in_half_precision_and_at_an_odd_head_size() -> None:
    for changes in ({"d": 80}, {"with_sinks": True, "padded": True}):
        assert max(compared({**PLAIN, **changes}, "triton", torch.float16)) < 2e-3


@pytest.mark.parametrize("programs", [1, 5, 256])
@pytest.mark.parametrize(
    "changes",
    [
        {"n_q": 1, "n_k": 450, "key_block": 1, "most": 200},
        {"n_q": 1, "n_k": 450, "everything": True, "with_sinks": True},
        {"n_q": 1, "n_k": 450, "most": 0, "with_sinks": True, "padded": True, "batch": 2},
        {"n_q": 3, "n_k": 450, "everything": True, "causal": False, "softcap": 2.0},
    ],
)
def test_programs_that_share_a_walk_agree_with_the_definition(
    changes: dict[str, object], programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is decoded by as many programs as the GPU has room for; parts may hold no key."""
    monkeypatch.setattr(triton_kernels, "PROGRAMS", programs)
    assert max(compared({**PLAIN, **changes}, "triton")) < 1e-5
