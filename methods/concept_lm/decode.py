"""Decoding with a cache for each group of layers.

The deep cache holds [concepts | tail]. When a token becomes a concept, its tail is evicted before
the concept enters: a suffix is cropped, nothing is recomputed, and the next query sees exactly what
the packed pass shows it. A tail that would outgrow the cap R is ended by a forced concept.

Rows of a batch meet concepts at different steps, so every row writes at its own pointer.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from methods.concept_lm.base import check_tokens
from methods.concept_lm.boundaries import HNet
from methods.concept_lm.config import ConceptError
from methods.concept_lm.head import draw
from methods.concept_lm.model import ConceptLM, pack


class SlotCache:
    """Keys and values of one group of layers, in buffers with a write pointer a row.

    Speaks the part of transformers' Cache that attention layers use (`update`). Buffers are
    allocated once and double when full: appending never copies what is already there.
    """

    def __init__(self, rows: int, capacity: int = 64) -> None:
        self.lengths = torch.zeros(rows, dtype=torch.long)
        self.capacity = capacity
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self._rows: Tensor | None = None  # None: all
        self._at: Tensor = self.lengths
        self._uniform = True
        self._window = 0

    def open(
        self, new: int, device: torch.device, rows: Tensor | None = None, window: int = 0
    ) -> Tensor | None:
        r"""Announce that `new` entries of `rows` come next, and get the attention mask for them.

        Query i of row b takes slot l_b + i, l_b being what the row holds; w is the window, no bound
        where it is 0.

        Equation: $M_{bik} = [\, l_b + i - w < k \le l_b + i \,]$

        Returns:
            None where plain causal attention is right, else (rows, 1, new, keys) bool.
        """
        self._rows, self._window = rows, window
        self._at = self.lengths if rows is None else self.lengths[rows]
        first, last = int(self._at.min()), int(self._at.max())
        self._uniform = first == last
        while self.capacity < last + new:
            self._grow()
        if self._uniform and (new == 1 or (first == 0 and not window)):
            return None
        key = torch.arange(last + new)
        query = self._at[:, None] + torch.arange(new)  # (rows, new) slot of each query
        mask = key <= query[:, :, None]  # (rows, new, keys)
        if window:
            mask &= key > query[:, :, None] - window
        return mask[:, None].to(device)

    def update(self, k: Tensor, v: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        r"""Write new keys and values at the pointers; return all that the queries may need.

        Equation: $K_{b, l_b + i} = k_{bi}, \quad V_{b, l_b + i} = v_{bi}, \quad 0 \le i < n$

        Args:
            k, v: (rows, kv_heads, new, d_head).
            layer: index of the decoder layer.

        Returns:
            Keys and values (rows, kv_heads, m, d_head) of the first m = max l_b + n slots, or of
            the last `window` of them where every row decodes one token at one length.
        """
        if layer not in self.keys:
            shape = (len(self.lengths), k.shape[1], self.capacity, k.shape[3])
            self.keys[layer], self.values[layer] = k.new_zeros(shape), v.new_zeros(shape)
        return self._put(self.keys[layer], k), self._put(self.values[layer], v)

    def _put(self, buffer: Tensor, new: Tensor) -> Tensor:
        n = new.shape[2]
        end = int(self._at.max()) + n
        if self._uniform and self._rows is None:
            buffer[:, :, end - n : end] = new
            start = max(0, end - self._window) if self._window and n == 1 else 0
            return buffer[:, :, start:end]
        rows = torch.arange(len(buffer)) if self._rows is None else self._rows
        slots = self._at[:, None] + torch.arange(n)  # (rows, n)
        buffer[rows[:, None], :, slots] = new.transpose(1, 2)
        return buffer[:, :, :end] if self._rows is None else buffer[rows, :, :end]

    def advance(self, counts: Tensor | int) -> None:
        r"""Keep `counts` of the entries just written, for each row that was opened.

        Equation: $l_b \leftarrow l_b + \mathrm{counts}_b$
        """
        if self._rows is None:
            self.lengths += counts
        else:
            self.lengths[self._rows] += counts

    def evict(self, counts: Tensor, rows: Tensor) -> None:
        r"""Forget the last `counts` entries of `rows`: what follows overwrites them.

        Equation: $l_b \leftarrow l_b - \mathrm{counts}_b$
        """
        assert bool((counts <= self.lengths[rows]).all()), "evicting more than is cached"
        self.lengths[rows] -= counts

    def _grow(self) -> None:
        self.capacity *= 2
        for store in (self.keys, self.values):
            for layer, buffer in store.items():
                B, H, n, d = buffer.shape
                store[layer] = buffer.new_zeros(B, H, self.capacity, d)
                store[layer][:, :, :n] = buffer

    def bytes(self) -> int:
        r"""Bytes of the keys and values that are live, over all rows and layers.

        Equation: $\mathrm{bytes} = \sum_b l_b \sum_{layers} 2 \, H_{kv} \, d_{head} \,
        \mathrm{size}$
        """
        per_slot = sum(
            2 * buffer.shape[1] * buffer.shape[3] * buffer.element_size()
            for buffer in self.keys.values()
        )
        return per_slot * int(self.lengths.sum())


@dataclass
class DecodeState:
    """Everything that decoding remembers, for B rows."""

    shallow: SlotCache
    middle: SlotCache
    deep: SlotCache
    tail: Tensor  # (B,) tokens since the last concept
    concepts: Tensor  # (B,) concepts so far
    times: Tensor  # (B,) tokens so far
    probe: SlotCache  # of the rule that asks the whole model, else empty
    memory: Tensor | None = None  # (B, memory) of the boundary rule
    given: Tensor | None = None  # (B, d) what the last concept's middle layers gave

    @classmethod
    def empty(cls, rows: int, capacity: int) -> "DecodeState":
        """Nothing read yet, with room for `capacity` tokens a row."""
        tail, concepts, times = torch.zeros(3, rows, dtype=torch.long)
        return cls(
            SlotCache(rows, capacity),
            SlotCache(rows),
            SlotCache(rows),
            tail,
            concepts,
            times,
            SlotCache(rows, capacity),
        )

    def kv_bytes(self) -> int:
        """Bytes of live keys and values in all caches."""
        caches = (self.shallow, self.middle, self.deep, self.probe)
        return sum(cache.bytes() for cache in caches)


@torch.no_grad()
def prefill(
    model: ConceptLM, x: Tensor, lengths: Tensor | None = None, *, room: int = 64
) -> tuple[Tensor, DecodeState]:
    r"""Read a prompt: shallow layers over T tokens, the rest over concepts and the last tail only.

    Row b has T_b tokens and n_b concepts, the last of which stands at tau_b. With the token readout
    h at T_b is appended where T_b = tau_b.

    Equation: $\mathrm{logits}_b = W \, \mathrm{norm}(\mathrm{Deep}([m_{b, 1}, \dots, m_{b, n_b},
    h_{b, \tau_b + 1}, \dots, h_{b, T_b}])_{-1})$

    Args:
        model: in evaluation mode.
        x: (B, T) prompts, padded on the right.
        lengths: (B,) tokens of each; all T where not given.
        room: steps to reserve room for.

    Returns:
        (B, V) logits of the token after each prompt, and the state to go on from.

    Raises:
        ConceptError: for tokens the base cannot read, or lengths outside 1 .. T.
    """
    check_tokens(x, model.base_config)
    B, T = x.shape
    lengths = torch.full((B,), T) if lengths is None else lengths.cpu()
    if int(lengths.min()) < 1 or int(lengths.max()) > T:
        raise ConceptError(f"prompt lengths must lie in 1..{T}")
    config, device = model.config, x.device
    state = DecodeState.empty(B, T + room)

    mask = state.shallow.open(T, device, window=config.shallow_window)
    positions = torch.arange(T, device=device)[None]
    h = model.qwen.embed_tokens(x)
    h = model.run_layers(model.shallow, h, positions, mask, state.shallow)
    state.shallow.advance(lengths)
    routing = model.route(h, x, None, lengths.to(device), state.probe)
    state.probe.advance(lengths)
    state.memory = routing.memory
    packed = pack(routing.is_concept)
    state.concepts = packed.counts.cpu()
    state.times = lengths.clone()

    m, given = model.run_middle(h, routing, packed, state.middle)
    last = torch.full((B,), -1)
    if m.shape[1]:
        state.middle.advance(state.concepts)
        ends = (packed.counts - 1).clamp_min(0)
        state.given = given[torch.arange(B, device=device), ends]
        last = torch.where(state.concepts > 0, packed.index.cpu().amax(1), -1)
    state.tail = lengths - 1 - last
    # [concepts | tail | the last token's own query], each row left-packed.
    token_readout = config.readout == "token"
    rows = []
    for b in range(B):
        n, start, end = int(state.concepts[b]), int(last[b]) + 1, int(lengths[b])
        row = [m[b, :n], h[b, start:end]]
        at = [packed.index[b, :n], torch.arange(start, end, device=device)]
        if token_readout and start == end:
            row.append(h[b, end - 1 : end])
            at.append(torch.tensor([end - 1], device=device))
        rows.append((torch.cat(row), torch.cat(at)))
    seen = torch.nn.utils.rnn.pad_sequence([row for row, _ in rows], batch_first=True)
    at_all = torch.nn.utils.rnn.pad_sequence([at for _, at in rows], batch_first=True)
    if config.positions == "compact":
        at_all = torch.arange(seen.shape[1], device=device)[None]
    out = model.run_layers(
        model.deep, seen, at_all, state.deep.open(seen.shape[1], device), state.deep
    )
    state.deep.advance(state.concepts + state.tail)
    ends = torch.tensor([len(row) - 1 for row, _ in rows], device=device)
    return model.read_out(out[torch.arange(B, device=device), ends][:, None])[:, 0], state


@torch.no_grad()
def step(model: ConceptLM, token: Tensor, state: DecodeState) -> Tensor:
    r"""Decode one token of each row: (B,) ids -> (B, V) logits of the next.

    What precedes D_t in the deep layers is cached; a concept evicts the tail before it enters. With
    the token readout h_t asks beside its concept.

    Equation: $D_t = c_t m_t + (1 - c_t) h_t, \quad
    \mathrm{logits}_t = W \, \mathrm{norm}(\mathrm{Deep}([m_1, \dots, m_n, h_{\tau(t) + 1}, \dots,
    h_t])_{-1})$

    Raises:
        ConceptError: when the base has no position left.
    """
    config, device = model.config, token.device
    if int(state.times.max()) >= model.base_config.max_position_embeddings:
        raise ConceptError(f"the base has {model.base_config.max_position_embeddings} positions")
    B = len(token)
    here = state.times[:, None].to(device)  # (B, 1)
    h = model.qwen.embed_tokens(token[:, None])  # (B, 1, d)
    mask = state.shallow.open(1, device, window=config.shallow_window)
    h = model.run_layers(model.shallow, h, here, mask, state.shallow)
    state.shallow.advance(1)

    logits = model.head(h)  # (B, 1, K + 1)
    if model.boundary is None or state.memory is None:
        is_concept = model.head.decide(logits)[:, 0].cpu()
    else:
        signal = model.boundary.signal(model, h, token[:, None], state.probe)
        state.probe.advance(1)
        fires, state.memory = model.boundary.step(signal[:, 0], state.memory)
        is_concept = fires.cpu()
    if config.run_cap:
        is_concept = is_concept | (state.tail >= config.run_cap)
    rows = is_concept.nonzero()[:, 0]
    D = h
    if len(rows):
        D = _concept(model, h, logits[:, 0], rows, state)
    # Deep positions: absolute, or the place in [concepts | tail].
    if config.positions == "compact":
        here = (state.concepts + state.tail - is_concept.long())[:, None].to(device)
    pair = len(rows) > 0 and config.readout == "token"
    if pair:  # the token asks beside its concept; what it writes is not kept
        D, here = torch.cat([D, h], 1), torch.cat([here, here + _after(config.positions)], 1)
    mask = state.deep.open(D.shape[1], device)
    out = model.run_layers(model.deep, D, here, mask, state.deep)
    state.deep.advance(1)
    state.tail = torch.where(is_concept, 0, state.tail + 1)
    state.times += 1
    asked = (is_concept & pair).long().to(device)
    return model.read_out(out[torch.arange(B, device=device), asked][:, None])[:, 0]


def _after(positions: str) -> int:
    return 1 if positions == "compact" else 0


def _concept(
    model: ConceptLM, h: Tensor, logits: Tensor, rows: Tensor, state: DecodeState
) -> Tensor:
    """Run the middle layers for the rows that met a concept, and evict their tails."""
    device = h.device
    on_device = rows.to(device)
    every = len(rows) == len(h)
    ids = model.head.route(logits[on_device, None], None).ids  # (rows, 1)
    e = model.head.embed(ids, None)  # (rows, 1, d)
    place = state.concepts if model.config.positions == "compact" else state.times
    mask = state.middle.open(1, device, None if every else rows)
    m = model.run_layers(model.middle, e, place[rows][:, None].to(device), mask, state.middle)
    state.middle.advance(1)
    if isinstance(model.boundary, HNet) and state.memory is not None:
        given = h.new_zeros(len(h), h.shape[-1]) if state.given is None else state.given
        before = torch.where(
            (state.concepts[rows] > 0).to(device)[:, None], given[on_device], m[:, 0]
        )
        m = HNet.smooth(m, state.memory[on_device, -1:], before)
        state.given = given.index_copy(0, on_device, m[:, 0])
    m = model.stand_in(h[on_device], m)
    state.deep.evict(state.tail[rows], rows)
    state.concepts[rows] += 1
    state.tail[rows] = 0
    if every:
        return m
    return h.index_copy(0, on_device, m)


@torch.no_grad()
def generate(
    model: ConceptLM,
    x: Tensor,
    n: int,
    *,
    lengths: Tensor | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Continue prompts by n tokens: (B, T) -> (B, n). Greedy at temperature 0.

    Equation: $x_{t + 1} \sim \mathrm{softmax}(\mathrm{logits}(x_{\le t}) / \tau), \quad
    \arg\max_v \mathrm{logits}_v(x_{\le t}) \;\mathrm{at}\; \tau = 0$
    """
    logits, state = prefill(model, x, lengths, room=n)
    out = []
    for i in range(n):
        token = draw(logits, temperature, generator)
        out.append(token)
        if i + 1 < n:
            logits = step(model, token, state)
    return torch.stack(out, 1)
