"""The compiled kernel: what it computes, how it is built, and that what is wrong in it is seen."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.errors import InputError
from methods.sparse_attention import api, build_kernel, checks, kernel, portable
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.checks import relative_error
from methods.sparse_attention.config import GlobalGroup, Group, LocalGroup, SparseAttentionConfig
from methods.sparse_attention.oracle import oracle_attention
from tests import forking
from tests.methods.mutation import Mutation
from tests.methods.sparse_attention import mutations
from tests.methods.sparse_attention.test_checks import at_shape
from tests.methods.sparse_attention.test_ops import configs
from tests.processes import ROOT

CONFIG = SparseAttentionConfig(local_heads=4, global_heads=2)


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if why := build_kernel.build():
        pytest.skip(why)
    kernel.loaded.cache_clear()
    assert kernel.loaded()


@settings(max_examples=40)
@given(config=configs(), n=st.integers(1, 420), batch=st.integers(1, 3), seed=st.integers(0, 2**31))
def test_any_configuration_agrees_with_the_oracle(
    config: SparseAttentionConfig, n: int, batch: int, seed: int
) -> None:
    torch.manual_seed(seed)
    q, k, v, grad = (torch.randn(batch, config.heads, n, 16) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = sparse_attention(*inputs, config, backend="kernel")
    wanted = oracle_attention(*inputs, config)
    assert relative_error(out, wanted) < 1e-5
    found = torch.autograd.grad(out, inputs, grad)
    exact = torch.autograd.grad(wanted, inputs, grad.double())
    assert max(map(relative_error, found, exact)) < 1e-5


def test_strided_inputs_and_a_layout_that_projects_without_a_copy() -> None:
    packed = torch.randn(2, 70, 3 * 6 * 16, requires_grad=True)
    q, k, v = (x.unflatten(2, (6, 16)).transpose(1, 2) for x in packed.chunk(3, 2))
    out = sparse_attention(q, k, v, CONFIG, backend="kernel")
    assert out.transpose(1, 2).flatten(2).data_ptr() == out.data_ptr()
    wanted = oracle_attention(q, k, v, CONFIG)
    assert relative_error(out, wanted) < 1e-5
    grad = torch.randn(2, 70, 6, 16).transpose(1, 2)
    (found,) = torch.autograd.grad(out, packed, grad)
    (exact,) = torch.autograd.grad(wanted, packed, grad.double())
    assert relative_error(found, exact) < 1e-5


def test_threads_change_no_bit() -> None:
    inputs = [torch.randn(2, 6, 700, 16, requires_grad=True) for _ in range(3)]
    grad, before, found = torch.randn(2, 6, 700, 16), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            out = sparse_attention(*inputs, CONFIG, backend="kernel")
            found.append([out, *torch.autograd.grad(out, inputs, grad)])
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


def test_it_is_taken_where_it_fits_and_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    q, odd = torch.randn(1, 6, 40, 16), torch.randn(1, 6, 40, 8)
    with pytest.raises(InputError, match="no float64"):
        sparse_attention(q.double(), q.double(), q.double(), CONFIG, backend="kernel")
    monkeypatch.setattr(portable, "_runs", None)
    for x in (q, odd, q.half()):
        assert sparse_attention(x, x, x, CONFIG).dtype == x.dtype
    for x in (q.double(), q):
        with pytest.raises(TypeError):  # by the other implementation
            sparse_attention(x, x, x, CONFIG, backend="auto" if x is not q else "portable")


# --- What is wrong is seen -----------------------------------------------------------------------


def broken(patch: pytest.MonkeyPatch, change: object) -> None:
    """Ranges changed by `change(first, last, group)`, in place."""
    right = api.pattern.of_groups.__wrapped__

    def wrong(groups: tuple[Group, ...], n: int, device: str) -> object:
        read = right(groups, n, device)
        for g, group in enumerate(groups):
            change(*read.ranges[0, g], group)  # type: ignore[operator]
        return read

    patch.setattr(api.pattern, "of_groups", wrong)


def failed(check: object) -> list[str]:
    return [case.label for case in check("cpu") if not case.passed]  # type: ignore[operator]


def test_a_window_off_by_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(first: torch.Tensor, _: torch.Tensor, group: Group) -> None:
        if isinstance(group, LocalGroup):
            first.sub_(1).clamp_(min=0)

    broken(monkeypatch, wider)
    monkeypatch.setattr(checks, "SHAPES", checks.SHAPES[4:6])
    found = failed(checks.oracle)
    assert found
    assert {label.split(",")[0] for label in found} == {"kernel", "portable", "flex"}


def test_a_look_into_the_future_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(_: torch.Tensor, last: torch.Tensor, group: Group) -> None:
        last[:-1] += int(isinstance(group, LocalGroup))

    broken(monkeypatch, longer)
    assert "kernel" in failed(checks.causality)
    assert "n = 200, the future" in at_shape(200, 1)


def test_a_window_shifted_far_down_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(first: torch.Tensor, _: torch.Tensor, group: Group) -> None:
        first[2048:] += int(isinstance(group, LocalGroup))

    broken(monkeypatch, later)
    assert at_shape(2000, 1) == []
    assert "n = 3000, output" in at_shape(3000, 1)


def test_an_anchor_lost_far_down_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(first: torch.Tensor, _: torch.Tensor, group: Group) -> None:
        first[1000:] += int(isinstance(group, GlobalGroup))

    broken(monkeypatch, lost)
    assert at_shape(900, 1) == []
    assert "n = 1600, output" in at_shape(1600, 1)


def test_gradients_wrong_at_a_large_batch_alone_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mutations.backward_that(
        monkeypatch, lambda q, dq, dk, dv: dk[-1].mul_(1.01 if q.shape[0] > 4 else 1)
    )
    assert at_shape(1200, 1) == []
    assert at_shape(1200, 5) == ["n = 1200, dK"]


def test_every_size_and_stride_is_right() -> None:
    assert failed(checks.sizes) == []


@pytest.mark.parametrize("mutation", mutations.COMPILED, ids=lambda mutation: mutation.name)
def test_a_kernel_that_is_wrong_at_some_sizes_is_seen(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.breaks(monkeypatch)
    found = failed(checks.sizes)
    assert found
    assert all(any(label.startswith(start) for label in found) for start in mutation.fails)


# --- How it is built -----------------------------------------------------------------------------

COMPILER = """#!/bin/sh
echo "$@" >> {log}
sleep 0.5
while [ "$1" != -o ]; do shift; done
touch "$2"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A compiler that notes how it was called; what it makes is empty. Its notes."""
    log, program = tmp_path / "log", tmp_path / "cxx"
    program.write_text(COMPILER.format(log=log))
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setattr(build_kernel, "FOLDER", tmp_path / "kernels")
    kernel.loaded.cache_clear()
    yield log
    kernel.loaded.cache_clear()


def test_two_processes_build_it_once(compiler: Path) -> None:
    code = "import sys, pathlib; from methods.sparse_attention import build_kernel\n"
    code += f"build_kernel.FOLDER = pathlib.Path({str(build_kernel.FOLDER)!r})\n"
    code += "sys.exit(build_kernel.build() or None)"
    (build_kernel.FOLDER / "tmp_killed").mkdir(parents=True)  # what a killed build leaves
    both = [subprocess.Popen(forking.program(code), cwd=ROOT) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert len(compiler.read_text().splitlines()) == 2  # compiled once, linked once
    lock, built = sorted(build_kernel.FOLDER.iterdir())
    assert (lock.name, built) == ("lock", build_kernel.library())
    assert build_kernel.build() == ""
    assert len(compiler.read_text().splitlines()) == 2


def test_what_cannot_be_built_or_loaded_leaves_pytorch_s_own_calls(
    compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = torch.randn(1, 6, 40, 16)
    assert not kernel.loaded()
    assert build_kernel.build() == ""
    kernel.loaded.cache_clear()
    assert not kernel.loaded()  # what our compiler made is no library
    assert sparse_attention(q, q, q, CONFIG).shape == q.shape
    build_kernel.library().unlink()
    monkeypatch.setenv("CXX", str(compiler.parent / "none"))
    assert "none" in build_kernel.build()
    monkeypatch.setenv("CXX", sys.executable)  # does not know the options
    assert "Unknown option" in build_kernel.build()
    assert not build_kernel.library().exists()


def test_a_sandbox_reaches_what_stands_in_the_account_s_cache(tmp_path: Path) -> None:
    """Another HOME, no caches, and nothing to write to but one folder (Landlock)."""
    code = "from pathlib import Path; from methods.worker import landlock\n"
    code += f"landlock.restrict_writing(Path({str(tmp_path)!r}))\n"
    code += "from methods.sparse_attention import kernel; raise SystemExit(not kernel.loaded())"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CACHE_HOME": "/none"}
    done = subprocess.run(forking.program(code), cwd=ROOT, env=environment)
    assert done.returncode == 0
