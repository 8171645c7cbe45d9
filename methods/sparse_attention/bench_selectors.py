"""Chosen blocks beside dense attention: `decode`, `prefill`, and what is lost, `budget`."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..context import Context
from ..errors import InputError
from ..kit.compare import relative
from ..kit.corpus import stdlib
from ..kit.report import Charts
from ..kit.seeds import generator, randn
from ..measure.timing import Comparison, Variants, time_all
from ..spec import Case
from . import kernel
from .block_sparse import block_sparse_attention
from .checks import BOUNDS
from .oracle import block_mask, masked_attention
from .selectors import (
    SELECTORS,
    Antidiagonal,
    BlockTopK,
    IndexerTopK,
    Local3d,
    MeanPooled,
    PageBounds,
    Selector,
    Strided,
    Summarised,
    TopP,
    VerticalSlash,
    WindowAndSinks,
)
from .spec import BudgetParams, DecodeParams, PrefillParams

Choice = Callable[[], Tensor]


def within(budget: int, n: int) -> dict[str, Selector]:
    """The selectors that choose for every query, reading about so many of n keys."""
    blocks, pages = max(3, budget // 64), max(3, budget // 16)
    stride = max(2, -(-2 * n // budget))
    return {
        "window_sinks": WindowAndSinks(window=blocks - 1),
        "strided": Strided(stride=stride, window=max(1, blocks // 2)),
        "mean_pooled": MeanPooled(top=blocks - 2),
        "page_bounds": PageBounds(top=pages - 2),
        "top_p": TopP(most=blocks - 2),
        "indexer": IndexerTopK(top=budget),
    }


def decode(ctx: Context, params: DecodeParams) -> None:
    """Time a token over the cache's length, and what choosing alone takes of it."""
    ctx.log(f"Our compiled kernel is {'' if kernel.loaded() else 'not '}built.")
    charts = Charts(ctx, __file__)
    tokens, choosing = (charts.open(name, params=params) for name in ("decode", "choice"))

    def comparisons() -> Iterator[Comparison]:
        for n in params.lengths:
            yield Comparison(tokens, float(n), partial(_tokens, ctx, params, n))
            yield Comparison(choosing, float(n), partial(_choices, ctx, params, n))

    time_all(ctx, comparisons(), params, baseline="dense")


def _drawn(ctx: Context, params: DecodeParams, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """One query a head, and n keys and values."""
    dtype, d = getattr(torch, params.dtype), params.d_head
    sizes = ((params.heads, 1), (params.kv_heads, n), (params.kv_heads, n))
    shapes = [(params.batch, heads, count, d) for heads, count in sizes]
    q, k, v = (randn(*s, seed=ctx.seed + i).to(ctx.device, dtype) for i, s in enumerate(shapes))
    return q, k, v


def _choice(selector: Selector, q: Tensor, k: Tensor) -> Choice:
    """What a decoding step computes to choose: from summaries where a cache keeps them."""
    if isinstance(selector, Summarised):
        return partial(selector.choose, q, selector.summaries(k), k.shape[2])
    return partial(selector, q, k)


def _tokens(ctx: Context, params: DecodeParams, n: int) -> Variants:
    """A decoding step of every variant, each checked at this very shape."""
    q, k, v = _drawn(ctx, params, n)
    calls: dict[str, Callable[[], object]] = {
        "dense": partial(_quiet, F.scaled_dot_product_attention, q, k, v, enable_gqa=True),
        "all_keys": partial(_quiet, block_sparse_attention, q, k, v, None),
    }
    for name, selector in within(params.budget, n).items():
        choice = _choice(selector, q, k)
        attend = partial(block_sparse_attention, q, k, v, key_block=selector.key_block)
        ctx.check_all("at_shape", _right(f"{name}, n = {n}", attend, (q, k, v), choice(), selector))
        calls[name] = partial(_chosen, choice, attend)
    return calls


def _choices(ctx: Context, params: DecodeParams, n: int) -> Variants:
    q, k, v = _drawn(ctx, params, n)
    dense = partial(_quiet, F.scaled_dot_product_attention, q, k, v, enable_gqa=True)
    chosen = within(params.budget, n).items()
    return {"dense": dense, **{name: partial(_quiet, _choice(one, q, k)) for name, one in chosen}}


@torch.no_grad()
def _quiet(call: Callable[..., Tensor], *given: Any, **words: Any) -> object:
    return call(*given, **words)


@torch.no_grad()
def _chosen(choice: Choice, attend: Callable[..., Tensor]) -> object:
    return attend(blocks=choice())


@torch.no_grad()
def _right(
    label: str,
    attend: Callable[..., Tensor],
    qkv: tuple[Tensor, Tensor, Tensor],
    blocks: Tensor,
    selector: Selector,
) -> Iterator[Case]:
    """The last queries against the definition, over the blocks that were chosen."""
    q, k, v = qkv
    rows, size = min(16, q.shape[2]), selector.query_block
    n_q, n_k = q.shape[2], k.shape[2]
    found = attend(blocks=blocks)[:, :, -rows:]
    late = blocks[:, :, torch.arange(n_q - rows, n_q) // size]  # one list a query
    mask = block_mask(
        late, rows, n_k, query_block=1, key_block=selector.key_block, causal=selector.causal
    )
    mask = mask.repeat_interleave(q.shape[1] // mask.shape[1], 1).to(q.device)
    keys, values = (x.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    wanted = masked_attention(q[:, :, -rows:].double(), keys, values, mask)
    yield Case(relative(found, wanted), BOUNDS[q.dtype], label=label)


def prefill(ctx: Context, params: PrefillParams) -> None:
    """A whole prompt, and a whole video: choosing and attending, beside dense attention."""
    charts = Charts(ctx, __file__)
    prompts, videos = (charts.open(name, params=params) for name in ("prefill", "video"))

    def comparisons() -> Iterator[Comparison]:
        for n in params.lengths:
            yield Comparison(prompts, float(n), partial(_prompt, ctx, params, n))
        for frames in params.frames:
            build = partial(_video, ctx, params, frames)
            yield Comparison(videos, float(frames * 16 * 16), build)

    time_all(ctx, comparisons(), params, baseline="dense")


def _whole(ctx: Context, params: PrefillParams, n: int) -> tuple[Tensor, Tensor, Tensor]:
    dtype, d = getattr(torch, params.dtype), params.d_head
    shapes = [(params.batch, heads, n, d) for heads in (params.heads, params.kv_heads)]
    q = randn(*shapes[0], seed=ctx.seed).to(ctx.device, dtype)
    k, v = (randn(*shapes[1], seed=ctx.seed + i).to(ctx.device, dtype) for i in (1, 2))
    return q, k, v


def _prompt(ctx: Context, params: PrefillParams, n: int) -> Variants:
    blocks = max(3, params.budget // 64)
    chosen: dict[str, Selector] = {
        "window_sinks": WindowAndSinks(window=blocks - 1, query_block=64),
        "strided": Strided(max(2, -(-2 * n // params.budget)), blocks // 2, query_block=64),
        "mean_pooled": MeanPooled(top=blocks - 2),
        "antidiagonal": Antidiagonal(p=params.share),
        "vertical_slash": VerticalSlash(blocks // 3, blocks // 3),
    }
    qkv = _whole(ctx, params, n)
    dense = partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    return _beside(ctx, qkv, dense, chosen, f"n = {n}")


def _video(ctx: Context, params: PrefillParams, frames: int) -> Variants:
    chosen: dict[str, Selector] = {
        "local_3d": Local3d((frames, 16, 16)),
        "block_top_k": BlockTopK(top=max(1, params.budget // 64)),
    }
    qkv = _whole(ctx, params, frames * 16 * 16)
    dense = partial(F.scaled_dot_product_attention, enable_gqa=True)
    return _beside(ctx, qkv, dense, chosen, f"{frames} frames")


def _beside(
    ctx: Context,
    qkv: tuple[Tensor, Tensor, Tensor],
    dense: Callable[..., Tensor],
    chosen: dict[str, Selector],
    label: str,
) -> Variants:
    calls: dict[str, Callable[[], object]] = {"dense": partial(_quiet, dense, *qkv)}
    for name, selector in chosen.items():
        sizes = {"query_block": selector.query_block, "key_block": selector.key_block}
        words: dict[str, Any] = {**sizes, "causal": selector.causal}
        attend = partial(block_sparse_attention, *qkv, **words)
        choice = partial(selector, *qkv[:2])
        ctx.check_all("at_shape", _right(f"{name}, {label}", attend, qkv, choice(), selector))
        calls[name] = partial(_chosen, choice, attend)
    return calls


# --- What is lost: a real language model ---------------------------------------------------------


def budget(ctx: Context, params: BudgetParams) -> None:
    """Perplexity, copied needles and attention mass of a model of one's own, over the budget."""
    model, text = _language_model(params), stdlib()
    charts = Charts(ctx, __file__)
    opened = {name: charts.open(name, params=params) for name in ("perplexity", "needles", "mass")}
    tokens = _tokens_of(params, model, bytes(text.valid[: 40 * params.length].tolist()))
    windows = tokens[: len(tokens) // params.length * params.length].view(-1, params.length)
    if not len(windows):
        raise InputError(f"the text has fewer than {params.length} tokens")
    windows = windows[: params.windows].to(ctx.device)
    model.to(ctx.device)
    ctx.check_all("as_dense", _as_dense(model, windows[:1, :256]))
    asked = _with_needles(windows, model.config.get_text_config().vocab_size)
    table: dict[str, dict[tuple[str, float], list[float]]] = {x: defaultdict(list) for x in opened}
    choices: list[tuple[str, int]] = [("dense", max(params.budgets))]
    choices += [(name, keys) for keys in params.budgets for name in within(keys, params.length)]
    for done, (name, keys) in enumerate(choices):
        ctx.progress(done, len(choices), f"{name}, {keys} keys")
        _attend_by(model, name, keys, params.length)
        found = _judge(model, windows, asked)
        for quantity, values in found.items():
            table[quantity][name, float(keys)] += values
    for name, series in opened.items():
        for (variant, at), values in table[name].items():
            series.add_exact(at, {variant: sum(values) / len(values)})
    ctx.progress(1, 1)


RANDOM = "random"  # a tiny model that has learned nothing: shows that everything runs


def _language_model(params: BudgetParams) -> Any:
    """A causal language model of transformers from a folder, the hub or a file in GGUF's format."""
    from transformers import AutoModelForCausalLM, LlamaConfig  # noqa: PLC0415 - slow to import

    from . import hugging_face  # noqa: PLC0415

    if not params.model:
        raise InputError("give the language model: --set model=FOLDER, FILE.gguf or a hub id")
    if params.model == RANDOM:
        torch.manual_seed(0)
        size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        config = LlamaConfig(vocab_size=256, **size, **heads)
        words = {"attn_implementation": hugging_face.NAME}
        return AutoModelForCausalLM.from_config(config, **words).eval()
    try:
        folder, _, file = params.model.rpartition("/")
        named: dict[str, Any] = {"gguf_file": file} if file.endswith(".gguf") else {}
        place = folder if named else params.model
        found = AutoModelForCausalLM.from_pretrained(
            place, dtype=torch.float32, attn_implementation=hugging_face.NAME, **named
        )
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"model {params.model!r} cannot be read: {error}"[:500]) from error
    return found.eval()


def _tokens_of(params: BudgetParams, model: Any, text: bytes) -> Tensor:
    """The text in the model's tokens; as bytes where the model comes without a tokenizer."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    size = int(model.config.get_text_config().vocab_size)
    as_bytes = torch.tensor(list(text), dtype=torch.long) % size
    if params.model == RANDOM:
        return as_bytes
    folder, _, file = params.model.rpartition("/")
    try:
        if file.endswith(".gguf"):
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        else:
            tokenizer = AutoTokenizer.from_pretrained(params.model)
    except (OSError, ValueError, KeyError):
        return as_bytes
    ids: list[int] = tokenizer(text.decode("utf-8", "replace"))["input_ids"]
    return torch.as_tensor(ids, dtype=torch.long)


@torch.no_grad()
def _as_dense(model: Any, tokens: Tensor) -> Iterator[Case]:
    """Where every key is read, the model computes what it does with PyTorch's attention."""
    from . import hugging_face  # noqa: PLC0415

    _attend_by(model, "dense", tokens.shape[1], tokens.shape[1])
    found = model(tokens, use_cache=False).logits
    model.set_attn_implementation("sdpa")
    wanted = model(tokens, use_cache=False).logits
    model.set_attn_implementation(hugging_face.NAME)
    yield Case(relative(found, wanted), 1e-4, label="every key read")


NEEDLE = 8  # tokens; the first half of it is repeated at the end


def _with_needles(windows: Tensor, vocabulary: int) -> Tensor:
    """A row of random tokens somewhere in each window, and the same once more at its end."""
    draw, asked = generator(0), windows.clone()
    for row in asked:
        needle = torch.randint(vocabulary, (NEEDLE,), generator=draw).to(row.device)
        place = int(torch.randint(len(row) - 4 * NEEDLE, (), generator=draw))
        row[place : place + NEEDLE] = needle
        row[-NEEDLE:] = needle
    return asked


def _attend_by(model: Any, name: str, keys: int, length: int) -> None:
    """Let the model attend by a selector within a budget; "dense" reads all."""
    from . import hugging_face  # noqa: PLC0415

    if name == "dense":
        hugging_face.choose(model, "window_sinks", window=length)
        return
    selector = within(keys, length)[name]
    fields = {field.name for field in dataclasses.fields(SELECTORS[name])}
    hugging_face.choose(model, name, **{x: y for x, y in vars(selector).items() if x in fields})


@torch.no_grad()
def _judge(model: Any, windows: Tensor, asked: Tensor) -> dict[str, list[float]]:
    """By window: perplexity of its second half, copied needles, and mass that was read."""
    from . import hugging_face  # noqa: PLC0415

    found: dict[str, list[float]] = defaultdict(list)
    losses = []
    for row, question in zip(windows, asked, strict=True):
        with hugging_face.mass() as kept:
            logits = model(row[None], use_cache=False).logits[0]
        half = len(row) // 2
        losses.append(float(F.cross_entropy(logits[half - 1 : -1].float(), row[half:])))
        found["mass"].append(100 * sum(kept) / len(kept))
        told = model(question[None], use_cache=False).logits[0, -NEEDLE // 2 - 1 : -1].argmax(-1)
        found["needles"].append(100 * float((told == question[-NEEDLE // 2 :]).float().mean()))
    found["perplexity"].append(float(torch.tensor(losses).mean().exp()))
    return found
