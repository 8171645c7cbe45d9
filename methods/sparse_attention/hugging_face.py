"""Sparse attention in transformers' own models: `attn_implementation="assay_sparse"`.

    import methods.sparse_attention.hugging_face
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="assay_sparse")

Importing this module registers the implementation. What a model attends to is its configuration's
`assay_sparse`, which `choose` writes and `save_pretrained` keeps; weights are untouched. Layers
with a sliding window of their own keep it, computed by the same operator. Padding may stand
anywhere: each sample attends among its real tokens alone.

`SparseCache` holds keys in place instead of copying all of them for every token, and the summaries
by which blocks are chosen; with any other cache the outputs are the same, later.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from ..errors import InputError
from .block_sparse import block_sparse_attention
from .oracle import block_mask
from .selectors import SELECTORS, MeanPooled, ReusedTopK, Selector, Summarised

NAME = "assay_sparse"
DEFAULT = MeanPooled(top=14)  # with the first block and the own one: 1,024 keys
REAL, QUERY = 1, 2  # of a slot of keys: it holds a token; it is one of the queries'


def choose(model: Any, name: str, **options: Any) -> Selector:
    """Let every layer of a model of transformers choose keys by a selector; returns it.

    `name` is one of `selectors.SELECTORS`, `options` are its fields. They are kept in the model's
    configuration. Raises InputError for unknown ones.
    """
    selector = _selector(name, options)
    given = {"selector": name, **options}
    for config in {id(c): c for c in (model.config, model.config.get_text_config())}.values():
        config.assay_sparse = given
    return selector


def selector_of(config: Any) -> Selector:
    """What a model's configuration chooses by. Raises InputError where that is unknown."""
    given = getattr(config, NAME, None)
    if given is None:
        return DEFAULT
    options = {name: value for name, value in given.items() if name != "selector"}
    return _selector(given.get("selector", ""), options)


def _selector(name: str, options: dict[str, Any]) -> Selector:
    if name not in SELECTORS:
        raise InputError(f"selector must be one of {', '.join(SELECTORS)}, not {name!r}")
    made = SELECTORS[name]
    fields = {field.name for field in dataclasses.fields(made)}
    if unknown := sorted(set(options) - fields):
        raise InputError(f"{name} has no {', '.join(unknown)}; it has {', '.join(sorted(fields))}")
    try:
        selector: Selector = made(**options)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from error
    if not selector.causal:
        raise InputError(f"{name} is not for causal language models")
    return selector


_asked: list[list[float]] = []  # where `mass` is wanted


@contextmanager
def mass() -> Iterator[list[float]]:
    """Within it, layers that choose add the share of attention that their last queries kept."""
    kept: list[float] = []
    _asked.append(kept)
    try:
        yield kept
    finally:
        _asked.remove(kept)


def _kept(q: Tensor, k: Tensor, blocks: Tensor, selector: Selector, scale: float | None) -> float:
    """The share of the softmax over all keys that the chosen blocks hold, of the last queries."""
    rows, n = min(32, q.shape[2]), k.shape[2]
    runs = torch.arange(q.shape[2] - rows, q.shape[2]) // selector.query_block
    lists, size = blocks[:, :, runs], selector.key_block
    read = block_mask(lists, rows, n, query_block=1, key_block=size).to(q.device)
    future = torch.arange(n, device=q.device) > torch.arange(n - rows, n, device=q.device)[:, None]
    keys = k.float().repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q[:, :, -rows:].float() @ keys.transpose(-1, -2)
    scores *= q.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.softmax(scores.masked_fill(future, -torch.inf), -1)
    return float((weights * read.repeat_interleave(q.shape[1] // read.shape[1], 1)).sum(-1).mean())


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    r"""What a layer of transformers calls: (batch, heads, n, d) -> (batch, n, heads, d).

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$

    `attention_mask` is what `mask` made. Raises InputError for dropout in training and for layers
    that are not causal self-attention.
    """
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if dropout:
        raise InputError("assay_sparse has no dropout of attention: set attention_dropout to 0")
    if not causal or options.get("position_bias") is not None:
        raise InputError("assay_sparse is for causal self-attention without position bias")
    words: dict[str, Any] = {"scale": scaling, "softcap": softcap or 0.0, "sinks": s_aux}
    config, selector = getattr(module, "config", None), None
    layer = (id(config), getattr(module, "layer_idx", 0))
    if sliding_window is None:
        selector = selector_of(config)
    elif isinstance(selector_of(config), ReusedTopK):
        raise InputError("reused is for models without sliding layers: those choose nothing")
    else:
        words["window"] = sliding_window
    if attention_mask is None:
        out = _attend(query, key, value, selector, words, layer)
    else:
        out = query.new_zeros(query.shape)
        slots = attention_mask[:, -key.shape[2] :]  # a sliding layer keeps the last ones alone
        for b, held in enumerate(slots):  # each sample by itself, among its real tokens
            real = (held & REAL).nonzero()[:, 0]
            rows = (held[held & QUERY > 0] & REAL).nonzero()[:, 0]
            if len(rows):
                k, v = (_taken(x[b : b + 1], real) for x in (key, value))
                q = _taken(query[b : b + 1], rows)
                out[b, :, rows] = _attend(q, k, v, selector, words, (*layer, b))[0]
    return out.transpose(1, 2).contiguous(), None


def _taken(x: Tensor, at: Tensor) -> Tensor:
    """Rows `at` of (1, heads, n, d), without a copy where they stand side by side."""
    first, last = int(at[0]), int(at[-1])
    if last - first + 1 == len(at):
        return x[:, :, first : last + 1]
    return x.index_select(2, at)


def _attend(  # noqa: PLR0917
    q: Tensor, k: Tensor, v: Tensor, selector: Selector | None, words: dict[str, Any],
    layer: tuple[int, ...],
) -> Tensor:  # fmt: skip
    """Attention without padding; the queries are the last tokens of the keys."""
    if selector is None or (selector.query_block > 1 and q.shape[2] != k.shape[2]):
        return block_sparse_attention(q, k, v, None, **words)  # after a prompt such read all keys
    kept = getattr(k, "assay_kept", None)
    if kept is not None and isinstance(selector, Summarised) and kept.selector == selector:
        blocks = selector.choose(q, kept.summaries(), k.shape[2])
    elif isinstance(selector, ReusedTopK):
        blocks = _reused(q, k, selector, layer)
    else:
        blocks = selector(q, k)
    for kept_shares in _asked:
        kept_shares.append(_kept(q, k, blocks, selector, words["scale"]))
    words = words | {"query_block": selector.query_block, "key_block": selector.key_block}
    return block_sparse_attention(q, k, v, blocks, **words)


_anchors: dict[tuple[int, ...], Tensor] = {}  # the last choice, by model and sample


def _reused(q: Tensor, k: Tensor, selector: ReusedTopK, layer: tuple[int, ...]) -> Tensor:
    """The choice of this layer, or of the last one before it that chose."""
    model, number, *sample = layer
    if number % selector.every == 0:
        _anchors[model, *sample] = selector(q, k)
    return _anchors[model, *sample]


def mask(  # noqa: PLR0917 - as transformers calls it
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    *,
    allow_is_causal_skip: bool = True,
    use_vmap: bool = False,
    device: torch.device | None = None,
    **options: Any,
) -> Tensor | None:
    r"""What `attend` must know of padding: (batch, kv_length) uint8, REAL and QUERY by slot.

    Equation: $m_{bj} = [\, j \;\mathrm{real}\, ] + 2\, [\, a \le j < a + n_q \,]$

    None where every key is real and the queries are the last ones. Raises InputError for masks
    that are more than causal, as packed sequences are.
    """
    if use_vmap or "allow_is_bidirectional_skip" in options:
        raise InputError("assay_sparse is for causal masks alone, not for custom ones")
    if not allow_is_causal_skip and q_length > 1:
        raise InputError("assay_sparse takes no packed sequences: pad the samples of a batch")
    first = int(q_offset) - int(kv_offset)  # the queries' first slot
    whole = attention_mask is None or bool(attention_mask.all())
    if whole and first + q_length == kv_length:
        return None
    where = torch.arange(kv_length, device=device)
    query = (where >= first) & (where < first + q_length)
    real = (where < first + q_length).expand(batch_size, -1)
    if attention_mask is not None:
        seen = attention_mask.bool()[:, int(kv_offset) : int(kv_offset) + kv_length]
        real = real & nn.functional.pad(seen, (0, kv_length - seen.shape[1]))
    return real.to(torch.uint8) * REAL + query.to(torch.uint8) * QUERY


class KeptLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """Keys and values of a layer in place, with the summaries of their complete blocks."""

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self.selector, self.length = selector, 0
        self._room: list[Tensor] = []  # keys, values, summaries: (batch, kv_heads, slots, d)
        self._summarised = 0  # blocks
        self._rows: list[int] = []  # of a block in each kind of summary

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        r"""Append (batch, kv_heads, new, d); all keys and values so far, as views.

        Equation: $K = [K, K_{new}], \quad V = [V, V_{new}]$
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        was, self.length = self.length, self.length + key_states.shape[2]
        for index, new in enumerate((key_states, value_states)):
            self._write(index, was, new)
        self.keys, self.values = (room[:, :, : self.length] for room in self._room[:2])
        if isinstance(self.selector, Summarised):
            size, done = self.selector.summarised, self._summarised
            self._summarised = self.length // size
            if self._summarised > done or not self._rows:  # none yet is a summary, too
                fresh = self.keys[:, :, done * size : self._summarised * size]
                kinds = self.selector.summaries(fresh)
                blocks = max(1, self._summarised - done)
                self._rows = [rows.shape[2] // blocks for rows in kinds]
                for index, (rows, each) in enumerate(zip(kinds, self._rows, strict=True), start=2):
                    self._write(index, done * each, rows)
        seen = self.keys.view_as(self.keys)
        seen.assay_kept = self  # type: ignore[attr-defined]  # goes with the keys to `attend`
        return seen, self.values

    def _write(self, index: int, at: int, new: Tensor) -> None:
        """Put rows into a room of rows, which doubles when it is full."""
        if index == len(self._room):
            self._room.append(new.new_empty(*new.shape[:2], 0, new.shape[3]))
        room, end = self._room[index], at + new.shape[2]
        if end > room.shape[2]:
            larger = new.new_empty(*new.shape[:2], max(end, 2 * room.shape[2], 64), new.shape[3])
            larger[:, :, :at] = room[:, :, :at]
            self._room[index] = room = larger
        room[:, :, at:end] = new

    def summaries(self) -> tuple[Tensor, ...]:
        r"""Of the complete blocks, each (batch, kv_heads, rows, d).

        Equation: $f(K_c), \quad c < \lfloor n / b \rfloor$
        """
        kinds = zip(self._room[2:], self._rows, strict=True)
        return tuple(room[:, :, : self._summarised * each] for room, each in kinds)

    def get_seq_length(self) -> int:
        """Tokens so far."""
        return self.length

    def crop(self, max_length: int) -> None:
        """Keep the first tokens alone (or, if negative, drop the last ones)."""
        length = self.length + max_length if max_length < 0 else max_length
        if length < self.length:
            self.length = length
            if isinstance(self.selector, Summarised):
                self._summarised = min(self._summarised, length // self.selector.summarised)
            self._cut()

    def _cut(self) -> None:
        self.keys, self.values = (room[:, :, : self.length] for room in self._room[:2])

    def reset(self) -> None:
        """Forget all tokens."""
        self.crop(0)

    def _by_sample(self, index: Tensor) -> None:
        self._room = [room.index_select(0, index.to(room.device)) for room in self._room]
        if self._room:
            self._cut()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the samples `beam_idx`, as beam search does."""
        self._by_sample(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Take some of the samples."""
        self._by_sample(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sample."""
        self._room = [room.repeat_interleave(repeats, 0) for room in self._room]
        if self._room:
            self._cut()


class SparseCache(Cache):  # type: ignore[misc]
    """The cache of a model that attends by `assay_sparse`: give it as `past_key_values`.

    Sliding layers keep their window; all others keep every key, in place, with its summaries.
    """

    def __init__(self, model_config: Any) -> None:
        config = model_config.get_text_config()
        selector = selector_of(config)
        window = getattr(config, "sliding_window", None)
        layers: list[Any] = []
        types = getattr(config, "layer_types", None)
        if types is None:  # one kind of layer, as Mistral's
            types = ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
        for kind in types:
            sliding = kind == "sliding_attention"
            layers.append(DynamicSlidingWindowLayer(window) if sliding else KeptLayer(selector))
        super().__init__(layers=layers)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask)
