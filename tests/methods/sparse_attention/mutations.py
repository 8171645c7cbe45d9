"""Ways to break the method, and the checks that must see it."""

import dataclasses

import torch

from methods.sparse_attention import api, cache, checks, config, ops_cpu, oracle, peers, tiles
from tests.methods.mutation import Mutation


def few_shapes(patch):
    patch.setattr(checks, "SHAPES", checks.SHAPES[4:6])
    patch.setattr(checks, "BOUNDS", {torch.float32: 1e-5})


def a_window_off_by_one(patch):
    few_shapes(patch)
    right = config.LocalGroup.first_key
    patch.setattr(config.LocalGroup, "first_key", lambda self, i: right(self, i) - 1)


def a_stride_off_by_one(patch):
    few_shapes(patch)
    right = ops_cpu.key_side

    def shifted(x: torch.Tensor, group: config.Group) -> torch.Tensor:
        return right(x.roll(1, 2) if isinstance(group, config.GlobalGroup) else x, group)

    patch.setattr(ops_cpu, "key_side", shifted)


def a_dropped_scale(patch):
    few_shapes(patch)
    right = ops_cpu.attend
    patch.setitem(api._BACKENDS, "cpu", lambda q, k, v, g: right(q * 32**0.5, k, v, g))


def gradients_of_overlaps_left_out(patch):
    few_shapes(patch)

    def only_first(self: tiles.Tile, total: torch.Tensor, part: torch.Tensor) -> None:
        self.keys(total)[:, :, : self.rows] += part[:, :, : self.rows]

    patch.setattr(tiles.Tile, "add_keys", only_first)


def a_wrong_backward(patch):
    right = ops_cpu._backward

    def doubled(s: ops_cpu._Tensors, g: ops_cpu._Tensors, *more: object, **options: object) -> None:
        right(s, g, *more, **options)  # type: ignore[arg-type]
        g.q.mul_(1.01)

    patch.setattr(ops_cpu, "_backward", doubled)


def a_look_into_the_future(patch):
    def leaking(*args: object) -> torch.Tensor:
        return torch.zeros(args[1], args[2] + args[1])  # type: ignore[call-overload, operator]

    patch.setattr(tiles, "_band", leaking)


def a_pooled_anchor_that_starts_at_its_token(patch):
    def early(x: torch.Tensor, stride: int) -> torch.Tensor:
        whole = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % stride))
        return whole.unflatten(2, (-1, stride)).mean(3)  # tokens t s .. (t + 1) s - 1

    patch.setattr(tiles, "pool_anchors", early)


def a_finite_fill_in_half_precision(patch):
    def filled(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, groups: tuple[config.Group, ...]
    ) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return torch.softmax(scores + future.to(q.dtype) * torch.tensor(-1e9).to(q.dtype), -1) @ v

    patch.setitem(api._BACKENDS, "cpu", filled)


def gradients_from_scores_that_overflow(patch):
    patch.setattr(ops_cpu, "LARGEST_LSE", float("inf"))


def a_ring_too_short(patch):
    right = cache._Ring.__init__

    def short(self: cache._Ring, *args: object) -> None:
        right(self, *args)  # type: ignore[arg-type]
        # w - 1 would do, as a new token brings its own key
        self.k, self.v = self.k[:, :, 2:], self.v[:, :, 2:]

    patch.setattr(cache._Ring, "__init__", short)


def anchors_that_are_not_appended(patch):
    patch.setattr(cache._Anchors, "put", lambda *args: None)


def a_window_resolved_anew_for_every_length(patch):
    right = checks.sparse_attention

    def forgetful(*args: object, context: int | None = None, **more: object) -> torch.Tensor:
        return right(*args, **more)  # type: ignore[arg-type]

    patch.setattr(checks, "sparse_attention", forgetful)


def padding_left_in(patch):
    right = checks.sparse_attention

    def careless(*args: object, key_lengths: object = None, **more: object) -> torch.Tensor:
        more.pop("padding_side", None)
        return right(*args, **more)  # type: ignore[arg-type]

    patch.setattr(checks, "sparse_attention", careless)


def key_heads_in_the_wrong_order(patch):
    grouped = checks.sparse_attention

    def wrong(*args: torch.Tensor, **more: object) -> torch.Tensor:
        q, k, v, *rest = args
        if k.shape[1] < q.shape[1]:
            times = q.shape[1] // k.shape[1]
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        return grouped(q, k, v, *rest, **more)  # type: ignore[arg-type]

    patch.setattr(checks, "sparse_attention", wrong)


def memory_that_grows_with_the_square(patch):
    def naive(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        c: config.SparseAttentionConfig,
        context: int,
    ) -> torch.Tensor:
        return peers.naive(oracle.head_masks(c, q.shape[2], context), q, k, v)

    patch.setattr(checks, "DOUBLED", (512, 1024))
    patch.setattr(checks, "sparse_attention", naive)


def a_closed_form_off_by_one(patch):
    right = config.LocalGroup.pairs
    patch.setattr(config.LocalGroup, "pairs", lambda self, n: right(self, n) + 1)


def a_window_below_the_stride(patch):
    right = checks.reach
    patch.setattr(
        checks,
        "reach",
        lambda c, n: right(dataclasses.replace(c, window_size=9, adaptive_window=False), n),
    )


MUTATIONS = [
    # The GPU's mask is its own: the tiles' window does not concern it.
    Mutation("oracle", a_window_off_by_one, fails=("cpu", "portable"), holds=("gpu",)),
    Mutation("oracle", a_stride_off_by_one, fails=("cpu",)),
    Mutation("oracle", a_dropped_scale, fails=("cpu",), holds=("portable",)),
    Mutation("oracle", gradients_of_overlaps_left_out),
    Mutation("gradients", a_wrong_backward, ("cpu, stride", "cpu, pool"), holds=("portable",)),
    Mutation("causality", a_look_into_the_future, fails=("cpu, stride", "portable, stride")),
    Mutation("causality", a_pooled_anchor_that_starts_at_its_token, fails=("cpu, pool",)),
    Mutation("finite", a_finite_fill_in_half_precision, fails=("cpu, float16, scale 0",)),
    Mutation("finite", gradients_from_scores_that_overflow, fails=("cpu, float32, scale 10000",)),
    Mutation("decoding", a_ring_too_short, fails=("cache, stride",)),
    Mutation("decoding", anchors_that_are_not_appended, fails=("cache, stride",)),
    Mutation("decoding", a_window_resolved_anew_for_every_length, fails=("prefix of 600",)),
    Mutation("padding", padding_left_in, fails=("padding rows", "batch against single samples")),
    Mutation("padding", key_heads_in_the_wrong_order, fails=("GQA against copied heads",)),
    Mutation("memory_growth", memory_that_grows_with_the_square),
    Mutation("closed_forms", a_closed_form_off_by_one),
    Mutation("two_layer_reach", a_window_below_the_stride),
]
