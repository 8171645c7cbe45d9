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

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from ..errors import InputError
from . import pattern
from .block_sparse import attend as attend_pattern
from .block_sparse import block_sparse_attention
from .config import SparseAttentionConfig, head_groups, resolve_window
from .pattern import Pattern, Scoring
from .selectors import SELECTORS, MeanPooled, Selector, Summarised

NAME, GROUPED = "assay_sparse", "grouped_heads"
log = logging.getLogger(__name__)
DEFAULT = MeanPooled(top=14)  # with the first block and the own one: 1,024 keys
PACKED = "assay_sparse takes no packed sequences: pad the samples of a batch"
SLIDING = "sliding_attention"
WHOLE = {"full_attention", "hybrid"}  # layers that attend to every key
SERVED = WHOLE | {SLIDING, "linear_attention", "conv", "moe"}
# What a layer may pass that changes its attention, and that is not computed here.
UNSERVED = (
    "block_indices", "cu_seq_lens_q", "indices", "output_attentions", "position_bias", "sinks",
)  # fmt: skip
REAL, QUERY = 1, 2  # of a slot of keys: it holds a token; it is one of the queries'


def choose(model: Any, name: str, **options: Any) -> Selector | SparseAttentionConfig:
    """Let every layer of a model of transformers choose keys by a selector; returns it.

    `name` is one of `selectors.SELECTORS`, `options` are its fields; or it is "grouped_heads" with
    those of `SparseAttentionConfig`, whose window is resolved here for the model's positions. They
    are kept in the model's configuration. Layers with a sliding window of their own keep it, which
    is logged. Raises InputError for unknown ones, and for a model that would use none of them.
    """
    text = model.config.get_text_config()
    if name == GROUPED:
        options = _resolved(options, text)
    selector = _selector(name, options)
    _check_interface(type(model), model.config)
    _check_layers(text)
    kinds = _layer_kinds(text)
    if not WHOLE.intersection(kinds):
        raise InputError(
            "every layer of this model has a sliding window, or no attention: nothing is left to "
            "choose"
        )
    if sliding := kinds.count(SLIDING):
        log.info("%d of %d layers keep their sliding window", sliding, len(kinds))
    settings = {"selector": name, **options}
    for config in {id(c): c for c in (model.config, text)}.values():
        config.assay_sparse = settings
    return selector


def _resolved(options: dict[str, Any], config: Any) -> dict[str, Any]:
    """Return options of grouped heads with a fixed window. Raises InputError for a misfit."""
    grouped, context = _grouped(options), config.max_position_embeddings
    heads = config.num_attention_heads
    head_groups(grouped, heads, context, getattr(config, "num_key_value_heads", heads))
    window = resolve_window(grouped, context)
    return options | {"window_size": window, "adaptive_window": False}


def _grouped(options: dict[str, Any]) -> SparseAttentionConfig:
    try:
        return SparseAttentionConfig(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{GROUPED}: {error}") from error


def _check_interface(model: Any, config: Any) -> None:
    """Raise InputError for a class of models that would run its own dense attention instead."""
    if not getattr(model, "_supports_attention_backend", True):
        raise InputError(
            f"{config.model_type} does not use transformers' attention interface: assay_sparse "
            "would change nothing"
        )


def _check_layers(config: Any) -> None:
    """Raise InputError for a model with layers whose keys are chosen in another way already."""
    if others := sorted(set(_layer_kinds(config)) - SERVED):
        raise InputError(
            f"{config.model_type} has layers of {', '.join(others)}, which assay_sparse does not "
            "compute: use 'sdpa' or 'eager'"
        )


def _layer_kinds(config: Any) -> list[str]:
    """Return the kind of each layer, by the names of transformers' `layer_types`."""
    types = getattr(config, "layer_types", None)
    if types is None:  # one kind of layer, as Mistral's
        kind = SLIDING if getattr(config, "sliding_window", None) else "full_attention"
        return [kind] * getattr(config, "num_hidden_layers", 1)
    return list(types)


def selector_of(config: Any) -> Selector | SparseAttentionConfig:
    """Return the selector of a model's configuration. Raises InputError for an unknown one."""
    settings = getattr(config, NAME, None)
    if settings is None:
        return DEFAULT
    options = {name: value for name, value in settings.items() if name != "selector"}
    return _selector(settings.get("selector", ""), options)


def _selector(name: str, options: dict[str, Any]) -> Selector | SparseAttentionConfig:
    if name == GROUPED:
        return _grouped(options)
    if name not in SELECTORS:
        raise InputError(f"selector must be one of {', '.join(SELECTORS)}, not {name!r}")
    selector_type = SELECTORS[name]
    fields = set(selector_type.__dataclass_fields__)  # `dataclasses.fields` cannot be compiled
    if unknown := sorted(set(options) - fields):
        raise InputError(f"{name} has no {', '.join(unknown)}; it has {', '.join(sorted(fields))}")
    try:
        selector: Selector = selector_type(**options)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from error
    if not selector.causal:
        raise InputError(f"{name} is not for causal language models")
    return selector


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
    r"""Attend for a layer of transformers: (batch, heads, n, d) -> (batch, n, heads, d).

    Equation: $o_i = \frac{\sum_{j \in C_i} e^{s_{ij}} v_j}{e^z + \sum_{j \in C_i} e^{s_{ij}}}$

    `attention_mask` is what `mask` made. Raises InputError for dropout in training and for layers
    that are not causal self-attention.
    """
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    _check_call(causal, dropout, options)
    selector = None if sliding_window is not None else _selector_of_layer(module)
    settings: dict[str, Any] = {"scale": scaling, "softcap": softcap or 0.0, "sinks": s_aux}
    if sliding_window is not None:
        settings["window"] = sliding_window
    if torch.is_autocast_enabled(query.device.type):  # as for PyTorch's own attention
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x.to(dtype) for x in (query, key, value))
    if attention_mask is None:
        out = _attend(query, key, value, selector, settings)
    else:
        out = query.new_zeros(query.shape)
        if (
            attention_mask.dtype != torch.uint8
            or attention_mask.shape[1:3] != (1, 1)
            or attention_mask.shape[3] < key.shape[2]
        ):
            raise InputError(
                f"assay_sparse takes no mask of {tuple(attention_mask.shape)}: give attention_mask "
                "as (batch, tokens), 0 for padding, and pad samples instead of packing them"
            )
        # A sliding layer keeps the last slots alone.
        slots = attention_mask[:, 0, 0, -key.shape[2] :]
        for b, slot_flags in enumerate(slots):  # each sample by itself, among its real tokens
            real = (slot_flags & REAL).nonzero()[:, 0]
            asked = (slot_flags & QUERY).nonzero()[:, 0]
            rows = (slot_flags[asked] & REAL).nonzero()[:, 0]
            if len(rows):
                k, v = (_taken(x[b : b + 1], real) for x in (key, value))
                q = _taken(query[b : b + 1], rows)
                places = real, asked[rows]
                out[b, :, rows] = _attend(q, k, v, selector, settings, places=places)[0]
    return out.transpose(1, 2).contiguous(), None


def _check_call(causal: bool, dropout: float, options: dict[str, Any]) -> None:
    """Raise InputError where a layer passes what is not computed here."""
    if dropout:
        raise InputError("assay_sparse has no dropout of attention: set attention_dropout to 0")
    if not causal:
        raise InputError("assay_sparse is for causal self-attention")
    for name in UNSERVED:
        if options.get(name) is not None and options[name] is not False:
            raise InputError(f"assay_sparse does not compute {name}: leave it out, or use 'eager'")


def _selector_of_layer(module: nn.Module) -> Selector | SparseAttentionConfig:
    """Return the selector of a layer. Raises InputError for one that hides its sliding window."""
    config, layer = getattr(module, "config", None), getattr(module, "layer_idx", 0)
    if config is not None and _layer_kinds(config)[layer : layer + 1] == [SLIDING]:
        raise InputError(
            f"{type(module).__name__} does not pass its sliding window, which assay_sparse would "
            "ignore: use 'sdpa'"
        )
    return selector_of(config)


def _taken(x: Tensor, index: Tensor) -> Tensor:
    """Rows `index` of (1, heads, n, d), without a copy where they stand side by side."""
    first, last = int(index[0]), int(index[-1])
    if last - first + 1 == len(index):
        return x[:, :, first : last + 1]
    return x.index_select(2, index)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, selector: Selector | SparseAttentionConfig | None,
    settings: dict[str, Any], *, places: tuple[Tensor, Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """Attention without padding; the queries are the last tokens of the keys.

    `places` are the slots of keys (n_k,) and queries (n_q,), padding counted, by which
    transformers measures a sliding window; None where there is no padding.
    """
    if isinstance(selector, SparseAttentionConfig):
        groups = head_groups(selector, q.shape[1], k.shape[2], k.shape[1])
        read = pattern.of_groups(groups, k.shape[2], str(q.device))
        read = read._replace(ranges=read.ranges[..., -q.shape[2] :])
        return attend_pattern(q, k, v, read, _scoring(q, settings), "auto")[0]
    if selector is None and places is not None:
        keys, queries = places
        first = torch.searchsorted(keys, queries - settings["window"] + 1)
        end = torch.searchsorted(keys, queries, right=True)
        read = Pattern(torch.stack([first, end]).int()[None, None], (q.shape[1],), (1,))
        return attend_pattern(q, k, v, read, _scoring(q, settings), "auto")[0]
    if selector is None or (selector.query_block > 1 and q.shape[2] != k.shape[2]):
        # After a prompt such a selector reads all keys.
        return block_sparse_attention(q, k, v, None, **settings)
    layer = getattr(k, "assay_kept", None)
    if layer is not None and isinstance(selector, Summarised) and layer.selector == selector:
        blocks = selector.choose(q, layer.summaries(), k.shape[2])
    else:
        blocks = selector(q, k)
    settings = settings | {"query_block": selector.query_block, "key_block": selector.key_block}
    return block_sparse_attention(q, k, v, blocks, **settings)


def _scoring(q: Tensor, settings: dict[str, Any]) -> Scoring:
    scale = q.shape[-1] ** -0.5 if settings["scale"] is None else settings["scale"]
    return Scoring(scale, settings["softcap"], settings["sinks"])


def mask(  # noqa: PLR0917 - as transformers calls it
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    *,
    mask_function: Callable[..., Tensor] | None = None,
    allow_is_causal_skip: bool = True,
    use_vmap: bool = False,
    device: torch.device | None = None,
    config: Any = None,
    **options: Any,
) -> Tensor | None:
    r"""Return the padding as `attend` reads it: (batch, 1, 1, kv_length) uint8, REAL and QUERY.

    It has four dimensions because transformers takes a mask of two for padding: `generate` makes
    the mask of a static cache itself and gives it to the model as `attention_mask`.

    Equation: $m_{bj} = [\, j \;\mathrm{real}\, ] + 2\, [\, a \le j < a + n_q \,]$

    None where every key is real and the queries are the last ones. Raises InputError for masks
    that are more than causal, as packed sequences are, and for models without the interface.
    """
    if config is not None:
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            _check_interface(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config)
        _check_layers(config)
    if use_vmap or "allow_is_bidirectional_skip" in options:
        raise InputError("assay_sparse is for causal masks alone, not for custom ones")
    if not allow_is_causal_skip and q_length > 1 and mask_function is not None:
        _refuse_packed(mask_function, batch_size, q_length, device)
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
    flags = real.to(torch.uint8) * REAL + query.to(torch.uint8) * QUERY
    return flags[:, None, None]


def _refuse_packed(
    mask_function: Callable[..., Tensor], batch: int, n: int, device: torch.device | None
) -> None:
    """Raise InputError where a query does not see the token before it: there a sample begins.

    A compiled model cannot look at its data while it is traced: it fails when it runs instead.
    """
    b, i = torch.arange(batch, device=device)[:, None], torch.arange(1, n, device=device)
    joined = mask_function(b, b.new_zeros(()), i, i - 1).all()
    if torch.compiler.is_compiling():
        torch._assert_async(joined, PACKED)
    elif not joined:
        raise InputError(PACKED)


class KeptLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """Keys and values of a layer in place, with the summaries of their complete blocks."""

    def __init__(self, selector: Selector | SparseAttentionConfig) -> None:
        super().__init__()
        self.selector, self.length = selector, 0
        self._room: list[Tensor] = []  # keys, values, summaries: (batch, kv_heads, slots, d)
        self._summarised = 0  # blocks

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
            size, done = self.selector.key_block, self._summarised
            self._summarised = self.length // size
            if self._summarised > done or len(self._room) == 2:  # none yet is a summary, too
                fresh = self.keys[:, :, done * size : self._summarised * size]
                for index, rows in enumerate(self.selector.summaries(fresh), start=2):
                    self._write(index, done, rows)
        seen = self.keys.view_as(self.keys)
        seen.assay_kept = self  # type: ignore[attr-defined]  # goes with the keys to `attend`
        return seen, self.values

    def _write(self, index: int, start: int, new: Tensor) -> None:
        """Put rows into a room of rows, which doubles when it is full."""
        if index == len(self._room):
            self._room.append(new.new_empty(*new.shape[:2], 0, new.shape[3]))
        room, end = self._room[index], start + new.shape[2]
        if end > room.shape[2]:
            larger = new.new_empty(*new.shape[:2], max(end, 2 * room.shape[2], 64), new.shape[3])
            larger[:, :, :start] = room[:, :, :start]
            self._room[index] = room = larger
        room[:, :, start:end] = new

    def summaries(self) -> tuple[Tensor, ...]:
        r"""Summaries of the complete blocks, each (batch, kv_heads, blocks, d).

        Equation: $f(K_c), \quad c < \lfloor n / b \rfloor$
        """
        return tuple(room[:, :, : self._summarised] for room in self._room[2:])

    def get_seq_length(self) -> int:
        """Tokens so far."""
        return self.length

    def crop(self, max_length: int) -> None:
        """Drop the last tokens if negative, nothing for 0; keep the first ones if positive.

        The first two are transformers' own. It took a length before and refuses one today.
        """
        length = self.length + max_length if max_length <= 0 else max_length
        self._shorten(max(0, min(length, self.length)))

    def _shorten(self, length: int) -> None:
        self.length = length
        if isinstance(self.selector, Summarised):
            self._summarised = min(self._summarised, length // self.selector.key_block)
        if self._room:
            self.keys, self.values = (room[:, :, :length] for room in self._room[:2])

    def reset(self) -> None:
        """Drop all tokens and samples."""
        self._room = []
        self._shorten(0)
        super().reset()

    def _select(self, index: Tensor) -> None:
        self._room = [room.index_select(0, index.to(room.device)) for room in self._room]
        self._shorten(self.length)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the samples `beam_idx`, as beam search does."""
        self._select(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Take some of the samples."""
        self._select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sample."""
        self._room = [room.repeat_interleave(repeats, 0) for room in self._room]
        self._shorten(self.length)


class SparseCache(Cache):  # type: ignore[misc]
    """The cache of a model that attends by `assay_sparse`: give it as `past_key_values`.

    Layers that attend to every key keep them in place, with their summaries; others are
    transformers' own.
    """

    def __init__(self, model_config: Any) -> None:
        config = model_config.get_text_config()
        selector, layers = selector_of(config), DynamicCache(config=config).layers
        super().__init__(
            layers=[KeptLayer(selector) if type(x) is DynamicLayer else x for x in layers]
        )


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, mask)
