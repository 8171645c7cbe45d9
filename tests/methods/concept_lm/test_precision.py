"""Half precision: what is decided and what is summed is not rounded to it."""

import copy

import pytest
import torch

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.model import ConceptLM, token_nll
from methods.concept_lm.practice import build, precision
from methods.concept_lm.v3.executor import Executor, Recogniser
from methods.concept_lm.v3.planner import Planner, PlanShape
from methods.concept_lm.v3.role import adapters
from methods.kit.compare import difference


def half(**changes) -> ConceptLM:
    base = load_base(tiny_config(), dtype=torch.bfloat16)
    return build(base, ConceptConfig(2, 2, 2, rho=0.3, **changes)).eval()


@torch.no_grad()
def test_concepts_are_chosen_in_the_precision_of_the_head():
    model = half(n_concepts=4096)
    h = torch.randn(4, 64, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    with precision(model.causal_lm):
        logits = model.head(h)
    assert logits.dtype == torch.float32
    wanted = copy.deepcopy(model.head).double()(h.double())
    # rms_norm of a bfloat16 input rounds once; the map after it adds nothing that matters.
    assert difference(logits, wanted) < 0.05
    top = logits[..., :-1].topk(2, -1).values
    assert not bool((top[..., 0] == top[..., 1]).any())


@torch.no_grad()
@pytest.mark.parametrize("rule", ["accumulate", "hnet", "multi_token", "autoregressive"])
def test_boundaries_are_decided_in_single_precision(rule):
    model = half(boundary=rule)
    x = checks.tokens("cpu", rows=3)
    with precision(model.causal_lm):
        h = model.qwen.embed_tokens(x)
        found = model.boundary.signal(model, h, x)
        model(x)
    assert found.dtype == torch.float32
    if rule in ("accumulate", "hnet"):  # the others ask the base, which computes in its own type
        exact = copy.deepcopy(model).double()
        assert difference(found, exact.boundary.signal(exact, h.double(), x)) < 2e-3


@torch.no_grad()
@pytest.mark.parametrize("readout", ["seed", "token"])
@pytest.mark.parametrize("lengths", [(9, 9, 9), (13, 9, 1)])
def test_cached_and_packed_runs_differ_by_the_rounding_of_bfloat16(readout, lengths):
    """One code, and boundaries that the letters set: no decision can turn on a rounded number."""
    model = half(n_concepts=1, boundary="fixed", readout=readout)
    exact, x = copy.deepcopy(model).double(), checks.tokens("cpu", rows=3)
    starts = torch.tensor(lengths)
    places = starts[:, None] + torch.arange(-1, checks.DECODED)
    rows = torch.arange(3)[:, None]
    with precision(model.causal_lm):
        packed = model(x).logits[rows, places]
        cached = checks.decoded(model, x, x.gather(1, places[:, 1:]), starts, 0)
    wanted = exact(x).logits[rows, places]
    largest = float(wanted.abs().max())
    for found in (packed, cached):
        assert 1e-4 * largest < difference(found, wanted) < 0.04 * largest


@torch.no_grad()
def test_losses_of_half_precision_are_summed_in_single():
    source = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(2, 9, 50, generator=source)).bfloat16()
    x = torch.randint(50, (2, 9), generator=source)
    assert difference(token_nll(logits, x), token_nll(logits.double(), x)) < 1e-5
    base = load_base(tiny_config(), dtype=torch.bfloat16)
    shape = PlanShape(2, 16, 3, 256, 256, d=64)
    on = adapters(base)
    planner, executor = Planner(shape, 0, on["planner"]), Executor(shape, 0, on["executor"])
    recogniser = Recogniser(shape, 0, on["recogniser"])
    with precision(base):
        z = planner.sample(x)
        found = planner.log_prob(x, z), executor.logits(*executor.read(z), x), recogniser.logits(x)
    assert {tensor.dtype for tensor in found} == {torch.float32}
