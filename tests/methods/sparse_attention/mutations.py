"""Ways to break the method, and the checks that must see it."""

import dataclasses

import torch

from methods.sparse_attention import (
    api,
    block_sparse,
    cache,
    checks,
    config,
    hugging_face,
    kernel,
    oracle,
    pattern,
    peers,
    portable,
    selectors,
)
from tests.methods.mutation import Mutation


def few_shapes(patch):
    patch.setattr(checks, "SHAPES", checks.SHAPES[4:6])
    patch.setattr(checks, "BOUNDS", {torch.float32: 1e-5})


def runs_that(patch, wrong):
    """`wrong(run)` is what is computed in the place of a run of the portable implementation."""
    right = portable._runs
    patch.setattr(portable, "_runs", lambda *given: map(wrong, right(*given)))


def a_window_off_by_one(patch):
    few_shapes(patch)
    right = api.pattern.of_groups

    def wider(groups, *given):
        read = right(groups, *given)
        local = torch.tensor([isinstance(group, config.LocalGroup) for group in groups])
        less = torch.zeros_like(read.ranges)
        less[:, local, 0] = 1
        return read._replace(ranges=(read.ranges - less).clamp(min=0))

    patch.setattr(api.pattern, "of_groups", wider)


def a_stride_off_by_one(patch):
    few_shapes(patch)

    def shifted(run):
        if run.at.step == 1:
            return run
        return run._replace(keys=run.keys.roll(1, 4), values=run.values.roll(1, 4))

    runs_that(patch, shifted)


def a_dropped_scale(patch):
    few_shapes(patch)
    right = portable.forward

    def unscaled(q, k, v, read, scoring):
        return right(q, k, v, read, scoring._replace(scale=1.0))

    patch.setattr(portable, "forward", unscaled)


def gradients_of_overlaps_left_out(patch):
    few_shapes(patch)
    right = portable._Run.add

    def only_own(self, total, part):
        part = part.clone()
        part[..., : -portable.ROWS, :] = 0
        right(self, total, part)

    patch.setattr(portable._Run, "add", only_own)


def a_wrong_backward(patch):
    right = portable.backward

    def scaled(*given, **words):
        dq, dk, dv = right(*given, **words)
        return dq * 1.01, dk, dv

    patch.setattr(portable, "backward", scaled)


def a_look_into_the_future(patch):
    right = api.pattern.of_groups

    def leaking(*given):
        read = right(*given)
        return read._replace(ranges=read.ranges.roll(-1, 3))

    patch.setattr(api.pattern, "of_groups", leaking)


def a_finite_fill_in_half_precision(patch):
    def filled(q, k, v, *_):
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores + future.to(q.dtype) * torch.tensor(-1e9).to(q.dtype)
        return torch.softmax(scores, -1) @ v, scores.float().logsumexp(-1)

    patch.setattr(portable, "forward", filled)


def gradients_from_scores_that_overflow(patch):
    """The sums that were saved differ in their last bits from the scores that are computed anew."""
    patch.setattr(block_sparse, "LARGEST_LSE", float("inf"))
    right = portable.backward

    def rounded(*given, saved, **options):
        out, lse = saved
        return right(*given, saved=(out, lse * (1 - 2**-21)), **options)

    patch.setattr(portable, "backward", rounded)


def a_window_stored_too_short(patch):
    right = cache.SparseKVCache.attend

    def short(self, *given):
        out = right(self, *given)
        # w - 1 would do, as a new token brings its own key
        self.stored[0] = tuple(x[:, :, 2:] for x in self.stored[0])
        return out

    patch.setattr(cache.SparseKVCache, "attend", short)


def anchors_that_are_not_appended(patch):
    right = cache.SparseKVCache.attend

    def forgetful(self, *given):
        before = self.stored[-1:]
        out = right(self, *given)
        self.stored[-1:] = before or self.stored[-1:]
        return out

    patch.setattr(cache.SparseKVCache, "attend", forgetful)


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
    """A compiled forward pass of what `wrong(q, k, v, read)` gives."""
    right = kernel.forward
    patch.setattr(kernel, "forward", lambda *given: right(*wrong(*given[:4]), given[4]))


def backward_that(patch, wrong):
    """A compiled backward pass whose gradients `wrong(q, dq, dk, dv)` spoils afterwards."""
    right = kernel.backward

    def changed(q, *given, **words):
        found = right(q, *given, **words)
        wrong(q, *found)
        return found

    patch.setattr(kernel, "backward", changed)


def a_scale_wrong_at_d_80(patch):
    forward_that(patch, lambda q, *rest: (q * 1.001 if q.shape[3] == 80 else q, *rest))


def a_delta_wrong_at_d_128(patch):
    right = kernel.backward

    def changed(q, *given, saved, **words):
        out = saved[0] * 1.01 if q.shape[3] == 128 else saved[0]
        return right(q, *given, saved=(out, saved[1]), **words)

    patch.setattr(kernel, "backward", changed)


def a_dk_wrong_from_d_96(patch):
    backward_that(patch, lambda q, dq, dk, dv: dk.mul_(1.01 if q.shape[3] >= 96 else 1))


def with_k_s_stride(k, v):
    return v.as_strided(v.shape, k.stride())


def a_v_read_with_k_s_stride(patch):
    forward_that(patch, lambda q, k, v, read: (q, k, with_k_s_stride(k, v), read))


def a_v_read_with_k_s_stride_backward(patch):
    right = kernel.backward

    def changed(q, k, v, *given, **words):
        return right(q, k, with_k_s_stride(k, v), *given, **words)

    patch.setattr(kernel, "backward", changed)


def a_backward_mask_of_minus_30(patch):
    """A masked key keeps e^-30 of its weight, which is much where scores are large."""
    right = kernel.backward

    def changed(q, k, v, read, scoring, *, saved, grad, grad_lse):
        words = {"saved": saved, "grad": grad, "grad_lse": grad_lse}
        dq, dk, dv = right(q, k, v, read, scoring, **words)
        if q.shape[2] > 500 or read.blocks is not None:
            return dq, dk, dv
        for g, (heads, shared, stride) in enumerate(read.parts(k.shape[1])):
            scores = q[:, heads] @ k[:, shared, ::stride].transpose(2, 3) * scoring.scale
            j = torch.arange(scores.shape[3])
            first, end = read.ranges[0, g, :, :, None]
            p = torch.exp(scores - 30 - saved[1][:, heads, :, None])
            p = p.masked_fill((j >= first) & (j < end), 0.0).clamp(max=1e6)
            dv[:, shared, ::stride] += p.transpose(2, 3) @ grad[:, heads]
        return dq, dk, dv

    patch.setattr(kernel, "backward", changed)


def keys_dropped_beyond_4096(patch):
    def fewer(q, k, v, read):
        return q, k, v, read._replace(ranges=read.ranges.clamp(max=4096))

    forward_that(patch, fewer)


def a_dq_unscaled_beyond_row_8192(patch):
    def wrong(q, dq, dk, dv):
        dq[:, :, 8192:] *= q.shape[3] ** 0.5

    backward_that(patch, wrong)


def a_last_row_skipped_at_2161(patch):
    right = kernel.forward

    def changed(q, *given):
        out, lse = right(q, *given)
        if q.shape[2] == 2161:
            out[:, :, -1] = 0.0
        return out, lse

    patch.setattr(kernel, "forward", changed)


def a_logsumexp_of_300_keys_at_most(patch):
    right = kernel.forward

    def changed(q, k, v, read, scoring):
        first, end = read.ranges.unbind(2)
        capped = torch.stack([first, torch.minimum(end, first + 300)], 2)
        out, _ = right(q, k, v, read, scoring)
        return out, right(q, k, v, read._replace(ranges=capped), scoring)[1]

    patch.setattr(kernel, "forward", changed)


def a_block_too_many(patch):
    def wider(q, k, v, read):
        if read.blocks is not None:
            more = torch.cat([read.blocks[..., :1], read.blocks[..., :-1] + 1], -1)
            read = read._replace(blocks=more.sort(-1).values)
        return q, k, v, read

    forward_that(patch, wider)


def a_mean_of_a_block_that_is_not_complete(patch):
    def hasty(self, k):
        return (selectors.in_blocks(k.float(), self.key_block, 0.0).mean(3),)

    patch.setattr(selectors.Summarised, "summaries", hasty)
    patch.setattr(
        selectors.Summarised, "current", lambda self, q, n_k: torch.full((q.shape[2],), 99)
    )


def a_choice_by_later_queries(patch):
    right = selectors.by_means

    def joint(q, *rest):
        return right(q.mean(2, keepdim=True).expand_as(q), *rest)

    patch.setattr(selectors, "by_means", joint)


def changed_choice(patch, selector, change):
    """A selector whose choice is `change(right, self, q, k)`."""
    right = selector.__call__
    patch.setattr(selector, "__call__", lambda self, q, k: change(right, self, q, k))


def a_slash_of_one_block(patch):
    def narrow(right, self, q, k):
        return right(self, q, k)[..., : -self.slash]

    changed_choice(patch, selectors.VerticalSlash, narrow)


def an_antidiagonal_that_is_the_diagonal(patch):
    def flipped(right, self, q, k):
        return right(self, q, k.unflatten(2, (-1, self.stride)).flip(3).flatten(2, 3))

    changed_choice(patch, selectors.Antidiagonal, flipped)


def a_crop_that_keeps_summaries(patch):
    right = hugging_face.KeptLayer._shorten

    def keeping(self, length):
        summarised = self._summarised
        right(self, length)
        self._summarised = summarised

    patch.setattr(hugging_face.KeptLayer, "_shorten", keeping)


def beams_that_keep_old_summaries(patch):
    right = hugging_face.KeptLayer._select

    def forgetful(self, index):
        old = self._room[2:]
        right(self, index)
        self._room[2:] = old

    patch.setattr(hugging_face.KeptLayer, "_select", forgetful)


def an_end_of_keys_seen_too_late(patch):
    right = pattern.reach

    def wider(n_q, n_k, **words):
        found = right(n_q, n_k, **words).clone()
        found[:, :, 1] = (found[:, :, 1] + 1).clamp(max=n_k)
        return found

    patch.setattr(pattern, "reach", wider)


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
    Mutation("oracle", a_window_off_by_one, fails=("portable", "flex")),
    Mutation("oracle", a_stride_off_by_one, fails=("portable",), holds=("flex",)),
    Mutation("oracle", a_dropped_scale, fails=("portable",), holds=("flex",)),
    Mutation("oracle", gradients_of_overlaps_left_out, holds=("flex",)),
    Mutation("gradients", a_wrong_backward),
    Mutation("causality", a_look_into_the_future, fails=("portable", "flex")),
    Mutation("finite", a_finite_fill_in_half_precision, fails=("portable, float16, scale 0",)),
    Mutation("finite", gradients_from_scores_that_overflow, fails=("portable, float32, scale 1",)),
    Mutation("decoding", a_window_stored_too_short, fails=("cache, one window",)),
    Mutation("decoding", anchors_that_are_not_appended, fails=("cache, one window",)),
    Mutation("decoding", a_window_resolved_anew_for_every_length, fails=("prefix of 600",)),
    Mutation("padding", padding_left_in, fails=("padding rows", "batch against single samples")),
    Mutation("padding", key_heads_in_the_wrong_order, fails=("GQA against copied heads",)),
    Mutation("memory_growth", memory_that_grows_with_the_square),
    Mutation("closed_forms", a_closed_form_off_by_one),
    Mutation("two_layer_reach", a_window_below_the_stride),
    Mutation("equations", a_slash_of_one_block, fails=("vertical_slash",)),
    Mutation("equations", an_antidiagonal_that_is_the_diagonal, fails=("antidiagonal",)),
    Mutation("equations", a_crop_that_keeps_summaries, fails=("mean_pooled, cache",)),
    Mutation("equations", beams_that_keep_old_summaries, fails=("page_bounds, cache",)),
    Mutation("ranges", an_end_of_keys_seen_too_late, fails=("offsets",)),
    Mutation("choices", a_mean_of_a_block_that_is_not_complete, fails=("mean_pooled",)),
    Mutation("choices", a_choice_by_later_queries, fails=("mean_pooled", "top_p")),
]
