"""Decoding with a cache for each group of layers.

The deep cache holds [concepts | tail]. When a token becomes a concept, its tail is evicted before
the concept enters: a suffix is cropped, nothing is recomputed, and the next query sees exactly what
the packed pass shows it. A tail that would outgrow the cap R is ended by a forced concept.

Rows of a batch meet concepts at different steps, so every row writes at its own pointer. The middle
layers' weights are then read at nearly every step, for a row or two; with `patience` rows that met
a concept wait for each other, at most so many steps, and share one pass. Each row is computed as
before, only later.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..errors import InputError
from ..kit.rows import take
from .base import check_tokens
from .boundaries import HNet
from .cache import SlotCache
from .core import pack
from .head import draw, since
from .model import ConceptLM


class DecodeState:
    """Everything that decoding remembers, for so many rows.

    At first nothing has been read, with room for `capacity` tokens a row.
    """

    def __init__(self, rows: int, capacity: int, window: int) -> None:
        self.shallow = SlotCache(rows, capacity, window)  # holds the tokens so far
        self.middle = SlotCache(rows)  # the concepts so far
        self.deep = SlotCache(rows)  # the concepts, then the tail
        self.probe = SlotCache(rows, capacity)  # of the rule that asks the whole model, else empty
        # Steps that a row has waited with the token it is at: (rows,).
        self.waited = torch.zeros(rows, dtype=torch.long)
        self.memory: Tensor | None = None  # (rows, memory) of the boundary rule
        self.given: Tensor | None = None  # (rows, d) what the last concept's middle layers gave
        self.caches = self.shallow, self.middle, self.deep, self.probe

    @property
    def tail(self) -> Tensor:
        r"""Tokens since the last concept, (B,).

        Equation: $\mathrm{tail}_b = l^{\mathrm{deep}}_b - l^{\mathrm{middle}}_b$
        """
        return self.deep.lengths - self.middle.lengths

    def kv_bytes(self) -> int:
        """Bytes of live keys and values in all caches."""
        return sum(cache.bytes() for cache in self.caches)


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
        InputError: for tokens the base cannot read, or lengths outside 1 .. T.
    """
    check_tokens(x, model.base_config)
    B, T = x.shape
    lengths = torch.full((B,), T) if lengths is None else lengths.cpu()
    if int(lengths.min()) < 1 or int(lengths.max()) > T:
        raise InputError(f"prompt lengths must lie in 1..{T}")
    config, device = model.config, x.device
    state = DecodeState(B, T + room, config.shallow_window)

    h = model.run_shallow(x, state.shallow)
    state.shallow.advance(lengths)
    routing = model.route(h, x, lengths=lengths.to(device), probe=state.probe)
    state.probe.advance(lengths)
    state.memory = routing.memory
    packed, counts = pack(routing.is_concept), routing.is_concept.sum(1)
    tail = since(routing.is_concept).cpu()[torch.arange(B), lengths - 1]

    m = model.run_middle(routing, packed, state.middle)
    state.middle.advance(counts.cpu())
    if m.shape[1]:
        state.given = take(m, (counts - 1).clamp_min(0)[:, None])[:, 0]
    # [concepts | tail | the last token's own query], each row left-packed.
    C = m.shape[1]
    begin = lengths - (tail.clamp_min(1) if config.readout == "token" else tail)
    spans = zip(counts.tolist(), begin.tolist(), lengths.tolist(), strict=True)
    picks = [torch.tensor([*range(n), *range(C + start, C + end)]) for n, start, end in spans]
    index = torch.nn.utils.rnn.pad_sequence(picks, batch_first=True).to(device)
    seen = take(torch.cat([m, h], 1), index)
    places = torch.cat([packed, torch.arange(T, device=device).expand(B, T)], 1).gather(1, index)
    positions = None if config.positions == "compact" else places
    out = model.run_layers(model.deep, seen, positions, cache=state.deep)
    state.deep.advance(state.middle.lengths + tail)
    ends = torch.tensor([len(pick) - 1 for pick in picks], device=device)
    return model.read_out(take(out, ends[:, None]))[:, 0], state


@torch.no_grad()
def step(
    model: ConceptLM,
    token: Tensor,
    state: DecodeState,
    patience: int = 0,
    active: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Decode one token of each row: (B,) -> logits (B, V) of the next, and who took the step (B,).

    What precedes D_t in the deep layers is cached; a concept evicts the tail before it enters. With
    the token readout h_t asks beside its concept.

    A row that met a concept waits until all have, or until one has waited `patience` steps; then
    all that wait go on together. A row that waited is given the same token again: nothing of it
    was kept, and its logits mean nothing. Rows that are not `active` (B,) wait for ever.

    Equation: $D_t = c_t m_t + (1 - c_t) h_t, \quad
    \mathrm{logits}_t = W \, \mathrm{norm}(\mathrm{Deep}([m_1, \dots, m_n, h_{\tau(t) + 1}, \dots,
    h_t])_{-1})$

    Equation: $\mathrm{ready}_b = \neg c_b \vee \min_{b'} c_{b'} = 1 \vee
    \max_{b' : c_{b'}} \mathrm{waited}_{b'} \ge \mathrm{patience}$

    Raises:
        InputError: when the base has no position left.
    """
    config, device = model.config, token.device
    active = torch.ones_like(state.waited, dtype=torch.bool) if active is None else active
    if int(state.shallow.lengths[active].max()) >= model.base_config.max_position_embeddings:
        raise InputError(f"the base has {model.base_config.max_position_embeddings} positions")
    h = model.run_shallow(token[:, None], state.shallow)  # (B, 1, d)
    routing = model.route(h, token[:, None], probe=state.probe, memory=state.memory)
    is_concept = routing.chosen[:, 0].cpu()
    if config.run_cap:
        is_concept = is_concept | (state.tail >= config.run_cap)
    waiting = is_concept & active
    together = bool(waiting[active].all()) or bool((state.waited[waiting] >= patience).any())
    ready = active if together else active & ~is_concept
    is_concept = is_concept & ready
    if routing.memory is not None and state.memory is not None:
        state.memory = torch.where(ready.to(device)[:, None], routing.memory, state.memory)
    rows = is_concept.nonzero()[:, 0]
    D = _concept(model, h, routing.ids, rows, state) if len(rows) else h
    pair = len(rows) > 0 and config.readout == "token"
    if pair:  # the token asks beside its concept; what it writes is not kept
        D = torch.cat([D, h], 1)
    # Deep positions: the place in [concepts | tail], or absolute.
    here = None if config.positions == "compact" else state.shallow.lengths[:, None].to(device)
    out = model.run_layers(model.deep, D, here, cache=state.deep)
    for cache in (state.shallow, state.probe, state.deep):
        cache.advance(ready.long())
    state.waited = torch.where(ready, 0, state.waited + 1)
    asked = (is_concept & pair).long().to(device)
    return model.read_out(take(out, asked[:, None]))[:, 0], ready


def _concept(model: ConceptLM, h: Tensor, ids: Tensor, rows: Tensor, state: DecodeState) -> Tensor:
    """Run the middle layers for the rows that met a concept, and evict their tails."""
    here = rows.to(h.device)
    e = model.head.embed(ids[here], None)  # (rows, 1, d)
    compact = model.config.positions == "compact"
    places = None if compact else state.shallow.lengths[rows, None].to(h.device)
    state.deep.evict(state.tail[rows], rows)
    m = model.run_layers(model.middle, e, places, cache=state.middle, rows=rows)
    state.middle.advance(1)
    # H-Net's first token is a concept, so that there is one before this.
    if isinstance(model.boundary, HNet) and state.memory is not None and state.given is not None:
        m = HNet.smooth(m, state.memory[here, -1:], state.given[here])
        state.given = state.given.index_copy(0, here, m[:, 0])
    return h.index_copy(0, here, m)


@torch.no_grad()
def generate(
    model: ConceptLM,
    x: Tensor,
    n: int,
    *,
    lengths: Tensor | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    patience: int = 0,
) -> Tensor:
    r"""Continue prompts by n tokens: (B, T) -> (B, n). Greedy at temperature 0.

    With `patience` rows that meet a concept wait for each other, at most so many steps.

    Equation: $x_{t + 1} \sim \mathrm{softmax}(\mathrm{logits}(x_{\le t}) / \tau), \quad
    \arg\max_v \mathrm{logits}_v(x_{\le t}) \;\mathrm{at}\; \tau = 0$

    Raises:
        InputError: for what `prefill` refuses, no tokens to write, a temperature below 0, or more
            tokens than the base has positions.
    """
    if n < 1 or not temperature >= 0:
        raise InputError(f"n is at least 1 and the temperature 0, not {n} and {temperature}")
    logits, state = prefill(model, x, lengths, room=n)
    out = x.new_zeros(len(x), n)
    out[:, 0] = draw(logits, temperature, generator)
    for done, logits, ready in walk(model, state, out, n - 1, patience):
        drawn, rows = draw(logits, temperature, generator), ready.nonzero()[:, 0]
        out[rows, done[rows] + 1] = drawn[rows]
    return out


def walk(
    model: ConceptLM, state: DecodeState, tokens: Tensor, n: int, patience: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    r"""Decode n tokens of each row; rows that meet concepts wait for each other so many steps.

    At each step: how many tokens each row had read (B,), logits (B, V), and the rows (B,) that read
    one more, to which these belong. A row reads its own of `tokens` (B, m) in turn, the last again
    where there are no more; the caller may write what comes later as it goes.

    Equation: $\mathrm{done}_b \leftarrow \mathrm{done}_b + \mathrm{ready}_b$
    """
    done = torch.zeros_like(state.waited)
    while bool((active := done < n).any()):
        place = done.clamp_max(tokens.shape[1] - 1)[:, None].to(tokens.device)
        logits, ready = step(model, tokens.gather(1, place)[:, 0], state, patience, active)
        yield done, logits, ready
        done = done + ready
