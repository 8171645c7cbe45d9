"""Both learned stages: merger and heads around a frozen LLaVA, soft in training, hard in use."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kit.checkpoint import CheckpointError, load_weights, read_state, save_state
from ..kit.noise import gumbel
from ..kit.rows import take
from ..kit.seeds import seeded
from .choice import BEFORE, Context, Selector, Stage, first_context, top
from .config import PruningConfig, from_keys
from .core import LayerHead, Merged, Merger, attend, score_head, soft_gate
from .llava import Vision, visual_tokens
from .stream import IGNORE, Entered, Prompt, Stream, embed, run_layer


class SimpleMerger(Merger):
    """Scores patches by themselves: s = Linear, ReLU, Dropout, Linear."""

    def __init__(self, d_vision: int, d_text: int, config: PruningConfig) -> None:
        super().__init__(d_vision)
        d = config.d_internal
        self.scorer = nn.Sequential(
            nn.Linear(d_vision, d), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(d, 1)
        )

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""(B, n, d_vision) -> scores (B, n) and V itself.

        Equation: $s_i = w \cdot \mathrm{drop}(\max(0, W v_i + b)) + b', \quad u_i = v_i$
        """
        return self.scorer(V)[..., 0], V


class QuestionMerger(Merger):
    """Scores patches by what is asked: patches attend to the question."""

    def __init__(self, d_vision: int, d_text: int, config: PruningConfig) -> None:
        d = config.d_internal
        super().__init__(d)
        self.vision, self.text = nn.Linear(d_vision, d), nn.Linear(d_text, d)
        self.attention = nn.MultiheadAttention(d, config.num_heads, batch_first=True)
        self.scorer = score_head(d)

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""(B, n, d_vision), (B, t, d_text) -> scores (B, n) and inner features (B, n, d).

        Equation: $s_i = \mathrm{MLP}(u_i + \mathrm{MHA}(u_i, W_t T + b_t)), \quad
        u_i = W_v v_i + b_v$
        """
        inner = self.vision(V)
        asked = attend(self.attention, inner, self.text(text), valid)
        return self.scorer(inner + asked)[..., 0], inner


class AsInTheSource(nn.Module):
    """Merging as the source has it, around either way to score.

    s_j is left out of A, so the scorer has no gradient; columns are not divided by their sums, so
    that a merged token is about n / M times too long; the question's merger merges inner features
    and projects them back, so keeping all tokens changes them.
    """

    def __init__(self, scoring: Merger, d_vision: int) -> None:
        super().__init__()
        self.scoring = scoring
        for each in (scoring.query, scoring.key):
            each.reset_parameters()
        width = scoring.query.in_features
        self.out = nn.Linear(width, d_vision) if isinstance(scoring, QuestionMerger) else None

    def score(self, V: Tensor, text: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        r"""Those of the merger around it: (B, n), (B, n, d). Equation: $s_i = f(v_i, T)$"""
        return self.scoring.score(V, text, valid)

    def forward(
        self, V: Tensor, text: Tensor, valid: Tensor, keep: int, *, tau: float, noise: bool = False
    ) -> Merged:
        r"""`Merger.forward`, from V (B, n, d_vision), as in the source.

        Equation: $A = \mathrm{softmax}_j \frac{W_q u_i \cdot W_k u_{c_j}}{\sqrt d \tau}, \quad
        o_j = W_o \sum_i A_{ij} u_i + b_o$
        """
        dtype = self.scoring.query.weight.dtype
        s, u = self.score(V.to(dtype), text.to(dtype), valid)
        index = top(s + gumbel(s) if noise else s, keep)  # (B, M)
        likeness = self.scoring.query(u) @ self.scoring.key(take(u, index)).mT  # (B, n, M)
        A = (likeness / (u.shape[-1] ** 0.5 * tau)).softmax(-1)  # (B, n, M)
        tokens = A.mT @ V.to(dtype) if self.out is None else self.out(A.mT @ u)
        return Merged(tokens.to(V.dtype), index, A, torch.zeros_like(index, dtype=s.dtype), s)


AnyMerger = Merger | AsInTheSource


def make_merger(config: PruningConfig, d_vision: int, d_text: int) -> AnyMerger | None:
    """The configured merger; None where there is none."""
    if config.merger_type == "none":
        return None
    kind = SimpleMerger if config.merger_type == "simple" else QuestionMerger
    merger = kind(d_vision, d_text, config)
    return merger if config.scored_merge else AsInTheSource(merger, d_vision)


@dataclass(frozen=True)
class Soft:
    """A pass in training.

    `states` of the discriminator's layers at answer places, (a, d) each; `logits` (a, V) and
    `targets` (a,); `gates` what a head and all before it let through, the sum of their log m and of
    the merger's gate, (B, n), by layer; `merged` what left the merger.
    """

    states: list[Tensor]
    logits: Tensor
    targets: Tensor
    gates: dict[int, Tensor]
    merged: Merged | None

    def kept(self) -> float:
        """The mean of what is let through in the end."""
        first = [] if self.merged is None else [self.merged.gate]
        return float([*first, *self.gates.values()][-1].detach().exp().mean())


class Pruner(nn.Module):
    """Merger and layer heads for a LLaVA, which they hold but do not own: it stays frozen.

    Their weights are float32 whatever the model's type: they cast what they read and give.

    Args:
        llava: the model, from `load_llava`.
        config: checked against it.

    Raises:
        InputError: when configuration and model do not fit.
    """

    def __init__(self, llava: Any, config: PruningConfig, *, seed: int = 0) -> None:
        super().__init__()
        text, vision = llava.config.text_config, llava.config.vision_config
        if llava.config.model_type != "llava":
            kind = llava.config.model_type
            raise InputError(f"merger and heads are for llava models, not a {kind}: use selectors")
        config.fit(text.num_hidden_layers, visual_tokens(llava))
        self.config = config
        self._llava = (llava,)  # in a tuple: not a submodule, so not in its state or optimisers
        with seeded(seed):
            self.merger: AnyMerger | None = make_merger(
                config, vision.hidden_size, text.hidden_size
            )
            self.heads = nn.ModuleDict(
                {
                    str(layer): LayerHead(text.hidden_size, config.d_internal, config.num_heads)
                    for layer in config.pruning_layers
                }
            )

    @property
    def llava(self) -> Any:
        """The frozen model."""
        return self._llava[0]

    def stages(self, keep: tuple[int, ...] | None = None, merged: int | None = None) -> list[Stage]:
        """Stages at which tokens leave by the learnt choice, for `read` and `generate`.

        Args:
            keep: visual tokens after each head; the configuration's where not given.
            merged: visual tokens that leave the merger; the configuration's where not given.

        Raises:
            InputError: for budgets that are not one a head, falling, at least one.
        """
        config = self.config if keep is None else replace(self.config, keep_tokens=keep)
        stages = []
        if self.merger is not None:
            count = config.merged(visual_tokens(self.llava)) if merged is None else merged
            chosen = Selector("our merger", self._merge, inside=False)
            stages.append(Stage(BEFORE, count, chosen))
        late = config.drop == "after"
        for layer, k in zip(config.pruning_layers, config.keep_tokens, strict=True):
            stages.append(Stage(layer, k, self.head_selector(layer), late))
        return stages

    def head_selector(self, layer: int) -> Selector:
        """The head of a layer as a way to choose."""
        head = self.heads[str(layer)]

        def select(context: Context, k: int) -> Tensor:
            return top(head(context.visual, context.text, context.asked), k)

        return Selector(f"our head before layer {layer}", select)

    def _merge(self, context: Context, k: int) -> Entered:
        assert self.merger is not None
        V, tau = context.vision.features, self.config.temperature_min
        merged = self.merger(V, context.text, context.asked, k, tau=tau)
        return Entered(merged.tokens, merged.index)

    def soft(self, prompt: Prompt, vision: Vision, tau: float, *, noise: bool = True) -> Soft:
        r"""The pass that trains: merged hard with a straight-through gate, gated softly by heads.

        Equation: $S^l_{ij} = \frac{q^l_i \cdot k^l_j}{\sqrt{d_{head}}} + g_j +
        \sum_{l' \le l} \log m^{l'}_j, \quad j \le i$

        g is the merger's gate; words have no gates.

        Nothing is dropped; from its layer on, log m biases the keys of every visual token, and
        gates of later heads add up. With `gate="scale"` hidden states are multiplied by m, as in
        the source.
        """
        merged, entered = None, None
        if self.merger is not None:
            context = first_context(self.llava, prompt, vision, None)
            keep = self.config.merged(visual_tokens(self.llava))
            V = vision.features
            merged = self.merger(V, context.text, context.asked, keep, tau=tau, noise=noise)
            entered = Entered(merged.tokens, merged.index, merged.gate)
        stream = embed(self.llava, prompt, vision, entered)
        let_through = [] if merged is None else [merged.gate]
        gates: dict[int, Tensor] = {}

        def before(layer: int, stream: Stream) -> None:
            if str(layer) not in self.heads:
                return
            logits = self.heads[str(layer)](stream.seen(), *stream.words())
            let_through.append(soft_gate(logits, tau, noise))
            gates[layer] = sum(let_through[1:], let_through[0])
            scaled = self.config.gate == "scale"
            let = let_through[-1] if scaled else gates[layer]
            log_m = let.new_zeros(stream.hidden.shape[:2]).scatter(1, stream.places(), let)
            if scaled:
                stream.hidden = stream.hidden * log_m.exp()[..., None].to(stream.hidden)
            else:
                stream.gate = log_m

        layers = self.config.discriminator_layers
        states, logits, targets = run(self.llava, stream, layers, before)
        return Soft(states, logits, targets, gates, merged)

    def unpruned(self, prompt: Prompt, vision: Vision) -> list[Tensor]:
        r"""The states of a pass without pruning, (a, d) a layer: what the discriminator calls real.

        Equation: $h^{l + 1} = \mathrm{Layer}_l(h^l)$
        """
        stream = embed(self.llava, prompt, vision, None)
        return run(self.llava, stream, self.config.discriminator_layers, lambda *_: None)[0]

    def save(self, path: Path) -> None:
        """Write weights and configuration; the frozen model is not copied."""
        save_state(path, {"config": asdict(self.config), "weights": self.state_dict()})

    def restore(self, path: Path) -> None:
        """Read weights that `save` wrote for a model of the same sizes.

        Raises:
            CheckpointError: for a file that is none, another format, other shapes, or NaN in it.
        """
        load_weights(self, read_state(path).get("weights", {}), path.name)


def load_pruner(llava: Any, path: Path) -> Pruner:
    """The pruner that `Pruner.save` wrote, on the model's device.

    Raises:
        CheckpointError: for a file that is none, or another format.
        InputError: for a configuration that does not fit the model.
    """
    config = read_state(path).get("config")
    if not isinstance(config, dict):
        raise CheckpointError(f"{path.name} is not what Pruner.save wrote")
    pruner = Pruner(llava, from_keys(config))
    pruner.restore(path)
    return pruner.to(llava.device).eval()


def run(
    llava: Any, stream: Stream, layers: Sequence[int], before: Callable[[int, Stream], None]
) -> tuple[list[Tensor], Tensor, Tensor]:
    r"""All layers with gradients; states and logits at the places that predict an answer.

    Equation: $h^{l + 1} = \mathrm{Layer}_l(\mathrm{before}_l(h^l)), \quad
    \mathrm{logits} = W\, \mathrm{norm}(h^L)$

    The states are rows of h^0 .. h^L, the last of them normed.

    Args:
        llava: the frozen model.
        stream: embedded tokens.
        layers: whose states are wanted, as `discriminator_layers`.
        before: `(layer, stream)`, called before each layer; what it changes in the stream is read.

    Returns:
        states (a, d) for each of `layers`, logits (a, V), targets (a,).

    Raises:
        InputError: for prompts without an answer to predict.
    """
    decoder = llava.model.language_model
    predicted = stream.targets != IGNORE
    if not bool(predicted.any()):
        raise InputError("the prompts have no targets: there is nothing to learn from them")
    rotary = decoder.rotary_emb(stream.hidden, stream.positions)
    states = []
    for number, layer in enumerate(decoder.layers):
        states.append(stream.hidden[predicted])
        before(number, stream)
        stream.hidden = run_layer(layer, stream.hidden, stream.bias(), rotary)
    states.append(decoder.norm(stream.hidden[predicted]))
    return [states[i] for i in layers], llava.lm_head(states[-1]), stream.targets[predicted]
