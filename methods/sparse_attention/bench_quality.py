"""How good: small models trained on the spot (`language_model`, `recall`); a real one: `budget`."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..context import Context
from ..errors import InputError
from ..kit.compare import relative
from ..kit.corpus import stdlib
from ..kit.frozen import gguf_in
from ..kit.report import Charts, Stages
from ..kit.seeds import generator
from ..kit.training import History, Plan, fit
from ..protocol import Variant
from ..spec import Case
from . import checks
from .config import SparseAttentionConfig
from .gpt2 import GPT2, GPT2Config
from .selectors import SELECTORS, within
from .spec import BudgetParams, LanguageModelParams, RecallParams

Shares = dict[tuple[str, float | str], list[float]]  # by variant and x, one of each seed

HEADS, RECALL_WIDTH = 6, 48
STRIDE = 10
ASKED = 1024  # samples that every model answers


def _sparse_configs(window: int) -> dict[str, SparseAttentionConfig]:
    """What each variant but the dense one attends with."""
    ours = SparseAttentionConfig(4, 2, window, 1 / STRIDE, adaptive_window=False)
    return {
        "local_only": replace(ours, local_heads=HEADS, global_heads=0),
        "ours": ours,
        "pool": replace(ours, anchor="pool"),
    }


@dataclass(frozen=True)
class _Task:
    """What every variant is trained on, and by how large a model."""

    params: LanguageModelParams | RecallParams
    vocab: int
    n_layer: int
    n_embd: int
    rate: float
    loss_of: Callable[[GPT2, torch.Generator], Tensor]

    def train(self, net: GPT2, draw: torch.Generator, on_step: Callable[..., None]) -> None:
        """AdamW, a tenth of warm-up, then a cosine to a tenth."""
        steps = self.params.steps
        plan = Plan(steps, self.rate, warm_up=max(1, steps // 10))
        optimiser = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.98), weight_decay=0.01)

        def loss(_: int) -> Tensor:
            return self.loss_of(net, draw)

        fit(loss, optimiser, plan, History(), module=net, on_step=on_step)


def _trained(
    ctx: Context, task: _Task, variants: Sequence[Variant]
) -> Iterator[tuple[str, int, GPT2]]:
    """Every variant from every seed, each trained on the same draws, once attention is right."""
    params = task.params
    configs = _sparse_configs(params.window)
    shape = params.batch, HEADS, params.context, task.n_embd // HEADS
    ctx.check_all("at_shape", checks.gate(configs, *checks.draw(*shape, device=ctx.device)))
    plain = GPT2Config(task.vocab, params.context, task.n_layer, HEADS, task.n_embd)
    stages = Stages(ctx, params.seeds * len(variants) * params.steps)
    for seed in range(params.seeds):
        for variant in variants:
            torch.manual_seed(ctx.seed + seed)
            net = GPT2(plain.attending(configs.get(variant.name))).to(ctx.device)
            on_step = stages.begin(params.steps, f"{variant.label}, seed {seed}")
            task.train(net, generator(1000 + ctx.seed + seed), on_step)
            yield variant.name, seed, net


# --- Byte language model -------------------------------------------------------------------------


def language_model(ctx: Context, params: LanguageModelParams) -> None:
    """Bits per byte held out, after the same training on the same bytes, for each attention."""
    corpus = stdlib()
    ctx.log(f"standard library sources {corpus.digest}: {len(corpus.train)} bytes to train on")
    held_out = corpus.judged(64, params.context + 1)

    def loss_of(net: GPT2, draw: torch.Generator) -> Tensor:
        at = int(torch.randint(1 << 30, (), generator=draw))
        return _bits(net, corpus.batch(at, params.batch, params.context + 1), ctx)

    task = _Task(params, 256, params.n_layer, params.n_embd, 3e-3, loss_of)
    charts = Charts(ctx, __file__)
    table: Shares = defaultdict(list)
    shown = charts.variants("quality", ("dense", "local_only", "ours"))
    for name, _, net in _trained(ctx, task, shown):
        with torch.no_grad():
            losses = [float(_bits(net, batch, ctx)) for batch in torch.split(held_out, 8)]
        table[name, f"{params.context} bytes"].append(sum(losses) / len(losses))
    charts.seeds("bits_per_byte", table, params=params)


def _bits(net: GPT2, batch: Tensor, ctx: Context) -> Tensor:
    batch = batch.to(ctx.device)
    logits = net(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / math.log(2)


# --- Recall of needles ---------------------------------------------------------------------------

KEYS, VALUES, FILLERS, NEEDLES = 6, 6, 16, 4
VOCAB = KEYS * VALUES + KEYS + FILLERS  # needle (key, value), question (key), filler


@dataclass(frozen=True)
class Needles:
    """A batch of the task: fillers with four needles, then a question for each, in random order.

    A needle is one token that holds a key and its value; a question is one token that holds a key;
    the answer, at the question, is the value's number.
    """

    tokens: Tensor  # (batch, context)
    answers: Tensor  # (batch, 4), for the last 4 positions
    places: Tensor  # (batch, 4), where the needle asked for stands

    @classmethod
    def draw(cls, batch: int, context: int, draw: torch.Generator, *, stride: int) -> Needles:
        """Half of all needles stand on anchors; the others never do."""
        body = context - NEEDLES
        tokens = torch.randint(0, FILLERS, (batch, context), generator=draw) + KEYS * VALUES + KEYS
        keys = torch.rand(batch, KEYS, generator=draw).argsort(1)[:, :NEEDLES]
        values = torch.randint(0, VALUES, (batch, NEEDLES), generator=draw)
        anchors = torch.arange(0, body, stride)
        others = torch.tensor([p for p in range(body) if p % stride])
        half = NEEDLES // 2
        on = anchors[torch.rand(batch, len(anchors), generator=draw).argsort(1)[:, :half]]
        off = others[torch.rand(batch, len(others), generator=draw).argsort(1)[:, half - NEEDLES :]]
        places = torch.cat([on, off], dim=1)  # (batch, 4)
        tokens.scatter_(1, places, keys * VALUES + values)
        order = torch.rand(batch, NEEDLES, generator=draw).argsort(1)
        tokens[:, body:] = keys.gather(1, order) + KEYS * VALUES
        return cls(tokens, values.gather(1, order), places.gather(1, order))


def recall(ctx: Context, params: RecallParams) -> None:
    """Share of needles answered right, on and off the anchors, and by distance."""
    charts = Charts(ctx, __file__)
    on_off: Shares = defaultdict(list)
    by_distance: Shares = defaultdict(list)

    def loss_of(net: GPT2, draw: torch.Generator) -> Tensor:
        needles = Needles.draw(params.batch, params.context, draw, stride=STRIDE)
        logits = net(needles.tokens.to(ctx.device))[:, -NEEDLES:, :VALUES]
        return F.cross_entropy(logits.flatten(0, 1), needles.answers.flatten().to(ctx.device))

    task = _Task(params, VOCAB, 2, RECALL_WIDTH, 4e-3, loss_of)
    for name, seed, net in _trained(ctx, task, charts.variants("quality")):
        right, needles = _answer(net, params, ctx)
        if name == "dense":
            ctx.check("dense_recall", float(right.mean()), params.gate, ">=", f"seed {seed}")
        on = needles.places % STRIDE == 0
        for where, chosen in (("on an anchor", on), ("off the anchors", ~on)):
            on_off[name, where].append(float(right[chosen].mean()))
        for distance, chosen in _distances(needles, params.context):
            by_distance[name, distance].append(float(right[chosen & ~on].mean()))
    charts.seeds("recall", on_off, params=params, stride=STRIDE, guess=1 / VALUES)
    charts.seeds("recall_by_distance", by_distance)


@torch.no_grad()
def _answer(net: GPT2, params: RecallParams, ctx: Context) -> tuple[Tensor, Needles]:
    """(samples, 4) 1.0 where right, over the same samples for every model."""
    task = Needles.draw(ASKED, params.context, generator(7), stride=STRIDE)
    logits = [
        net(part.to(ctx.device))[:, -NEEDLES:, :VALUES].cpu() for part in task.tokens.chunk(16)
    ]
    return (torch.cat(logits).argmax(-1) == task.answers).float(), task


def _distances(task: Needles, context: int) -> Iterator[tuple[float, Tensor]]:
    """Eighths of the context: their middle, and which needles lie that far from their question."""
    asked = torch.arange(context - NEEDLES, context)
    eighths = (asked - task.places) * 8 // context  # (samples, 4)
    for eighth in range(8):
        yield (eighth + 0.5) * context / 8, eighths == eighth


# --- What is lost: a real language model ---------------------------------------------------------

RANDOM = "random"  # a tiny model that has learned nothing: shows that everything runs
NEEDLE = 8  # tokens; the first half of it is repeated at the end


def budget(ctx: Context, params: BudgetParams) -> None:
    """Perplexity, copied needles and attention mass of a model of one's own, over the budget.

    Intervals are over windows of text, which every selector reads alike.
    """
    model, encode = _language_model(params.model)
    charts = Charts(ctx, __file__)
    tokens = encode(bytes(stdlib().valid[: 40 * params.length].tolist()))
    windows = tokens[: len(tokens) // params.length * params.length].view(-1, params.length)
    if not len(windows):
        raise InputError(f"the text has fewer than {params.length} tokens")
    windows = windows[: params.windows].to(ctx.device)
    model.to(ctx.device)
    ctx.check_all("as_dense", _as_dense(model, windows[:1, :256]))
    asked = _with_needles(windows, model.config.get_text_config().vocab_size)
    tables: dict[str, Shares] = {x: defaultdict(list) for x in ("perplexity", "needles", "mass")}
    choices: list[tuple[str, int]] = [("dense", max(params.budgets))]
    choices += [(name, keys) for keys in params.budgets for name in within(keys, params.length)]
    for done, (name, keys) in enumerate(choices):
        ctx.progress(done, len(choices), f"{name}, {keys} keys")
        _attend_by(model, name, keys, params.length)
        for quantity, values in _judge(model, windows, asked).items():
            tables[quantity][name, float(keys)] += values
    for name, table in tables.items():
        charts.seeds(name, table, params=params)
    ctx.progress(1, 1)


def _language_model(name: str) -> tuple[Any, Callable[[bytes], Tensor]]:
    """A causal language model of transformers, and how text becomes its tokens.

    From a folder, the hub or a file in GGUF's format. Raises InputError where it cannot be read.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig  # noqa: PLC0415 - slow

    from . import hugging_face  # noqa: PLC0415

    if not name:
        raise InputError("give the language model: --set model=FOLDER, FILE.gguf or a hub id")
    words: dict[str, Any] = {"attn_implementation": hugging_face.NAME}
    if name == RANDOM:
        torch.manual_seed(0)
        size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        config = LlamaConfig(vocab_size=256, **size, **heads)
        model = AutoModelForCausalLM.from_config(config, **words).eval()
        return model, lambda text: torch.tensor(list(text))
    where, named = gguf_in(name)
    try:
        read = AutoModelForCausalLM.from_pretrained
        model = read(where, dtype=torch.float32, **words, **named).eval()
        tokenizer = AutoTokenizer.from_pretrained(where, **named)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(f"model {name!r} cannot be read: {error}"[:500]) from error

    def encode(text: bytes) -> Tensor:
        return torch.as_tensor(tokenizer(text.decode("utf-8", "replace"))["input_ids"])

    return model, encode


@torch.no_grad()
def _as_dense(model: Any, tokens: Tensor) -> Iterator[Case]:
    """Where every key is read, the model computes what it does with PyTorch's attention."""
    from . import hugging_face  # noqa: PLC0415

    _attend_by(model, "dense", tokens.shape[1], tokens.shape[1])
    ours = model(tokens, use_cache=False).logits
    model.set_attn_implementation("sdpa")
    wanted = model(tokens, use_cache=False).logits
    model.set_attn_implementation(hugging_face.NAME)
    yield Case(relative(ours, wanted), 1e-4, label="every key read")


def _with_needles(windows: Tensor, vocabulary: int) -> Tensor:
    """A row of random tokens somewhere in each window, and the same once more at its end."""
    draw, asked = generator(0), windows.clone()
    for row in asked:
        needle = torch.randint(vocabulary, (NEEDLE,), generator=draw).to(row.device)
        start = int(torch.randint(len(row) - 4 * NEEDLE, (), generator=draw))
        row[start : start + NEEDLE] = needle
        row[-NEEDLE:] = needle
    return asked


def _attend_by(model: Any, name: str, keys: int, length: int) -> None:
    """Let the model attend by a selector within a budget; "dense" reads all."""
    from . import hugging_face  # noqa: PLC0415

    if name == "dense":
        hugging_face.choose(model, "window_sinks", window=-(-length // 64), query_block=64)
        return
    selector = within(keys, length)[name]
    fields = {field.name for field in dataclasses.fields(SELECTORS[name])}
    hugging_face.choose(model, name, **{x: y for x, y in vars(selector).items() if x in fields})


@torch.no_grad()
def _judge(model: Any, windows: Tensor, asked: Tensor) -> dict[str, list[float]]:
    """By window: perplexity of its second half, copied needles, and mass that was read."""
    from . import hugging_face  # noqa: PLC0415

    judged: dict[str, list[float]] = defaultdict(list)
    for row, question in zip(windows, asked, strict=True):
        with hugging_face.mass() as kept:
            logits = model(row[None], use_cache=False).logits[0]
        half = len(row) // 2
        loss = F.cross_entropy(logits[half - 1 : -1].float(), row[half:])
        judged["perplexity"].append(float(loss.exp()))
        judged["mass"].append(100 * sum(kept) / len(kept))
        told = model(question[None], use_cache=False).logits[0, -NEEDLE // 2 - 1 : -1].argmax(-1)
        right = told == question[-NEEDLE // 2 :]
        judged["needles"].append(100 * float(right.float().mean()))
    return judged
