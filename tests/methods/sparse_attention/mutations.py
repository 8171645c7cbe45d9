"""Ways to break the method, and the checks that must see it."""

import dataclasses

import torch

from methods.sparse_attention import (
    api,
    cache,
    checks,
    config,
    kernel,
    ops_cpu,
    oracle,
    peers,
    selectors,
    tiles,
)
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


# --- Kernels that are wrong at some sizes alone --------------------------------------------------


def forward_that(patch, wrong):
    """A compiled forward pass changed by `wrong(q, k, v, words)`, which gives what it runs with."""
    right = kernel.forward

    def changed(q, k, v, ranges, **words):
        q, k, v = wrong(q, list(k), list(v), words)
        right(q, k, v, ranges, **words)

    patch.setattr(kernel, "forward", changed)


def backward_that(patch, wrong):
    """A compiled backward pass whose gradients `wrong(q, dq, dk, dv)` spoils afterwards."""
    right = kernel.backward

    def changed(q, k, v, ranges, *, into, **words):
        right(q, k, v, ranges, into=into, **words)
        wrong(q, *into)

    patch.setattr(kernel, "backward", changed)


def a_scale_wrong_at_d_80(patch):
    def wrong(q, k, v, _):
        return (q * 1.001 if q.shape[3] == 80 else q), k, v

    forward_that(patch, wrong)


def a_delta_wrong_at_d_128(patch):
    right = kernel.backward

    def changed(q, k, v, ranges, *, saved, **words):
        out = saved[0] * 1.01 if q.shape[3] == 128 else saved[0]
        right(q, k, v, ranges, saved=(out, saved[1]), **words)

    patch.setattr(kernel, "backward", changed)


def a_dk_wrong_from_d_96(patch):
    def wrong(q, dq, dk, dv):
        for part in dk if q.shape[3] >= 96 else ():
            part.mul_(1.01)

    backward_that(patch, wrong)


def with_k_s_stride(k, v):
    return [y.as_strided(y.shape, x.stride()) for x, y in zip(k, v, strict=True)]


def a_v_read_with_k_s_stride(patch):
    forward_that(patch, lambda q, k, v, _: (q, k, with_k_s_stride(k, v)))


def a_v_read_with_k_s_stride_backward(patch):
    right = kernel.backward

    def changed(q, k, v, ranges, **words):
        right(q, k, with_k_s_stride(list(k), list(v)), ranges, **words)

    patch.setattr(kernel, "backward", changed)


def a_backward_mask_of_minus_30(patch):
    """What is masked keeps e^-30 of its weight, which is much where scores are large."""
    right = kernel.backward

    def changed(q, k, v, ranges, *, saved, grad, into, **words):
        right(q, k, v, ranges, saved=saved, grad=grad, into=into, **words)
        lse = saved[1]
        for x, seen, dv in zip(k, ranges, into[2], strict=True):
            if q.shape[1] % x.shape[1] or q.shape[2] > 500 or sum(z.shape[1] for z in k) < 2:
                continue
            h = slice(0, x.shape[1])
            scores = q[:, h] @ x.transpose(2, 3) / q.shape[3] ** 0.5
            j = torch.arange(x.shape[2])
            masked = (j < seen[0, 0][:, None]) | (j >= seen[0, 1][:, None])
            p = torch.exp(scores - 30 - lse[:, h, :, None]).masked_fill(~masked, 0.0)
            dv.add_(p.clamp(max=1e6).transpose(2, 3) @ grad[:, h])

    patch.setattr(kernel, "backward", changed)


def keys_dropped_beyond_4096(patch):
    right = kernel.forward

    def changed(q, k, v, ranges, **words):
        right(q, k, v, [seen.clamp(max=4096) for seen in ranges], **words)

    patch.setattr(kernel, "forward", changed)


def a_dq_unscaled_beyond_row_8192(patch):
    def wrong(q, dq, dk, dv):
        dq[:, :, 8192:] *= q.shape[3] ** 0.5

    backward_that(patch, wrong)


def a_last_row_skipped_at_2161(patch):
    right = kernel.forward

    def changed(q, k, v, ranges, *, out, lse, **words):
        right(q, k, v, ranges, out=out, lse=lse, **words)
        if q.shape[2] == 2161:
            out[:, :, -1] = 0.0

    patch.setattr(kernel, "forward", changed)


def a_logsumexp_of_300_keys_at_most(patch):
    right = kernel.forward

    def changed(q, k, v, ranges, *, out, lse, **words):
        right(q, k, v, ranges, out=out, lse=lse, **words)
        capped = [torch.stack([s[:, 0], s[:, 1].minimum(s[:, 0] + 300)], 1) for s in ranges]
        right(q, k, v, capped, out=torch.empty_like(out), lse=lse, **words)

    patch.setattr(kernel, "forward", changed)


def a_block_too_many(patch):
    right = kernel._options

    def wider(chosen, sinks):
        if chosen is not None:
            more = torch.cat([chosen.blocks[..., :1], chosen.blocks[..., :-1] + 1], -1)
            chosen = chosen._replace(blocks=more.sort(-1).values)
        return right(chosen, sinks)

    patch.setattr(kernel, "_options", wider)


def a_mean_of_a_block_that_is_not_complete(patch):
    def hasty(self, k):
        return (selectors.in_blocks(k.float(), self.key_block, 0.0).mean(3),)

    patch.setattr(selectors.Summarised, "summaries", hasty)
    patch.setattr(selectors.Summarised, "own", lambda self, q, n_k: torch.full((q.shape[2],), 99))


def a_choice_by_later_queries(patch):
    right = selectors.by_means

    def joint(q, *rest):
        return right(q.mean(2, keepdim=True).expand_as(q), *rest)

    patch.setattr(selectors, "by_means", joint)


COMPILED = [
    Mutation("sizes", a_scale_wrong_at_d_80),
    Mutation("sizes", a_delta_wrong_at_d_128),
    Mutation("sizes", a_dk_wrong_from_d_96),
    Mutation("sizes", a_v_read_with_k_s_stride),
    Mutation("sizes", a_v_read_with_k_s_stride_backward),
    Mutation("sizes", a_backward_mask_of_minus_30),
    Mutation("sizes", keys_dropped_beyond_4096),
    Mutation("sizes", a_dq_unscaled_beyond_row_8192),
    Mutation("sizes", a_last_row_skipped_at_2161),
    Mutation("sizes", a_logsumexp_of_300_keys_at_most),
    Mutation("sizes", a_block_too_many, fails=("blocks",)),
]

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
    Mutation("choices", a_mean_of_a_block_that_is_not_complete, fails=("mean_pooled",)),
    Mutation("choices", a_choice_by_later_queries, fails=("mean_pooled", "top_p")),
]
