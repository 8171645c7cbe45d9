"""The gate of the cost benchmark."""

from functools import partial

import torch

from methods.context import Context
from methods.seps import bench, checks
from methods.seps.config import SepsConfig
from methods.seps.model import candidate
from methods.seps.pairs import Texts
from methods.seps.spec import CostParams


def test_the_gate_of_cost_sees_captions_far_down_that_are_wrong():
    def wrong(batch):
        patches, words = torch.randn(batch, 17, 32), torch.randn(2, batch, 6, 32)
        sparse, dense = (Texts(one, torch.ones(batch, 6, dtype=torch.bool)) for one in words)
        model = candidate("seps", SepsConfig(dim=32, patches=16, keep=0.5)).eval()
        found = model.all_pairs(patches, sparse, dense)
        found[9:] = found[9:].roll(1, 0)  # mixed up beyond the ninth
        of = {"seps": lambda: found}
        cases = bench.at_shape(of, {"seps": model}, patches, sparse, dense)
        return [case.label for case in cases if not case.passed]

    assert wrong(8) == []
    assert wrong(12) == ["seps, 12 x 12, 6 words"]


def counted(repeated):
    """The variants at tiny sizes, and the series of memory."""
    ctx = Context("cpu", 0, lambda body: None, repeated=repeated)
    small = {"dim": 16, "patches": 16, "batches": (2, 3), "words": (4, 6), "keeps": (0.5, 1.0)}
    found = list(bench._comparisons(ctx, CostParams(**small)))
    for one in found:
        one.build()
    return found, {series.name: series for series in ctx.release(partial=False)}


def test_a_size_that_is_a_point_of_three_series_is_measured_once():
    found, memory = counted(repeated=False)
    assert [(one.x, [x for _, x in one.also]) for one in found] == [
        (2, [4, 0.5]), (3, []), (6, []), (1, []),
    ]  # fmt: skip
    assert {name: {point.x for point in series.points} for name, series in memory.items()} == {
        "memory_batch": {2, 3}, "memory_words": {4, 6}, "memory_keep": {0.5, 1},
    }  # fmt: skip


def test_bytes_are_counted_in_the_first_process_alone():
    assert counted(repeated=True)[1] == {}


def test_a_similarity_that_is_wrong_is_not_timed():
    """Of ragged captions, without dense text."""
    config = SepsConfig(dim=32, patches=16, keep=0.5)
    for name in ("whole", "laps", "seps_learnt", "seps_sparse"):
        model = candidate(name, config).eval()
        given = checks.inputs("cpu", model.config, batch=8, words=7, exact=False)
        right = partial(model.all_pairs, **given)
        (case,) = bench.at_shape({name: right}, {name: model}, **given)
        assert case.passed
        (case,) = bench.at_shape({name: lambda f=right: f().roll(1, 1)}, {name: model}, **given)
        assert not case.passed
