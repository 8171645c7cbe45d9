"""A LLaVA small enough to train here, and how well it answers questions about drawn scenes.

What makes it learn in a minute: tower and projector first learn to name what each patch shows, and
the tower stays as it is from then on; the shape comes last in a question; many questions are asked
of one image in one sequence; and two hops are taught as such (`lesson`): halfway up the decoder the
last token is to name the shape whose patch is sought, so that all questions end in one look-up.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..kit.checkpoint import Checkpoint
from ..kit.seeds import seeded
from ..kit.training import History, Plan, fit
from . import scenes
from .choice import BEFORE, Selector, Stage
from .config import PruningConfig
from .core import read
from .llava import MIN_MASK, Vision, attention_scores, encode, load_llava, sized
from .model import Pruner
from .scenes import KINDS, PATCHES, Questions, Scenes
from .selectors import REGISTRY
from .stream import IGNORE, Prompt, embed, run_layer
from .training import History as Learnt
from .training import train

LAYERS = 4
HOPS = (1, 3)  # layers taught to attend to the patch asked about, and to the one that answers
SCENES, QUESTIONS = 16, 24  # a training batch of the unpruned model
WARM_UP, WARM_UP_RATE = 200, 4e-3  # steps of the tower on patches
RATE = 2e-3
SHARP = 8.0  # of similarity between patches and words: what is projected stays short

OnStep = Callable[[int], None]  # called with how many steps are done


def pruning(**changes: Any) -> PruningConfig:
    """The configuration for the small model: 64 -> 32 by the merger, heads before layers 0 and 2.

    Two heads are two budgets, so that any average of tokens a layer can be had. Sparsity weighs 200
    times what it does in the source: with weight 1 heads learn to keep every object, whatever is
    asked, which leaves small budgets to chance.
    """
    values: dict[str, Any] = {
        "pruning_layers": (0, 2),
        "keep_tokens": (3, 1),
        "d_internal": 64,
        "d_discriminator": 64,
        "dropout": 0.0,
        "merger_lr": 2e-3,
        "pruner_lr": 2e-3,
        "sparsity_weight": 200.0,
        "discriminator_layers": (-1, -2, -3),
    }
    return PruningConfig(**(values | changes))


def split(budget: int) -> tuple[int, int]:
    """Budgets of the two heads that average `budget`, 2 at least, over four layers.

    They are as steep as the source's.
    """
    first = (3 * budget + 1) // 2
    return first, 2 * budget - first


def trained(
    seed: int,
    steps: int,
    *,
    on_step: OnStep = lambda _: None,
    folder: str = "",
    model: str = "",
    looks: bool = True,
) -> Any:
    """The unpruned model: read from `model`, or trained here, once a folder.

    Args:
        seed: of weights and scenes.
        steps: of training, after the tower's.
        on_step: called with the steps done.
        folder: where trained models are kept, in `base-<seed>-<steps>`; empty keeps none.
        model: a folder or hub id of a model of these scenes, in the place of training.
        looks: whether two layers are supervised where to look; without, the task alone is learnt.

    Raises:
        InputError: for a model that is not there or does not speak of scenes.
    """
    cached = Path(folder) / f"base-{seed}-{steps}{'' if looks else '-free'}" if folder else None
    source = model or (str(cached) if cached is not None and cached.exists() else "")
    if source:
        llava = load_llava(source, dtype=torch.float32)
        text, vision = llava.config.text_config, llava.config.vision_config
        if (text.vocab_size, vision.image_size) != (scenes.VOCAB, scenes.SIDE):
            raise InputError(
                f"{source!r} has {text.vocab_size} words and images of {vision.image_size}, drawn "
                f"scenes {scenes.VOCAB} and {scenes.SIDE}: measure it with `latency`, or give a "
                "model made by methods.token_pruning.toy"
            )
        return llava
    llava = load_llava(sized("scenes"), seed=seed)
    with seeded(seed):
        _learn(llava, seed, steps, on_step, looks=looks)
    llava.requires_grad_(False).eval()
    if cached is not None:
        llava.save_pretrained(cached)
    return llava


class _Plan(Plan):
    """A rate that rises over 30 steps, stays, and falls over the last half."""

    def rate_at(self, step: int) -> float:
        """The rate of a step."""
        left = 0.02 + 2 * (self.steps - step) / self.steps
        return self.rate * min(1.0, (step + 1) / 30, left)


def _learn(llava: Any, seed: int, steps: int, on_step: OnStep, *, looks: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"nothing": 1, "target": scenes.SHAPES + 1, "present": scenes.SHAPES}
    names = nn.ModuleDict({name: nn.Linear(64, size) for name, size in sizes.items()})

    def learn(loss: Callable[[Scenes], Tensor], count: int, plan: Plan, before: int) -> None:
        fit(
            lambda _: loss(scenes.draw(count, generator)),
            torch.optim.AdamW([*llava.parameters(), *names.parameters()]),
            plan,
            History(),
            module=llava,
            on_step=lambda step, _: on_step(before + step),
        )

    def answering(drawn: Scenes) -> Tensor:
        return lesson(llava, drawn, scenes.ask(drawn, QUESTIONS, generator), looks=looks)[0]

    llava.requires_grad_(True)
    naming = partial(_naming, llava, names)
    learn(naming, 2 * SCENES, _Plan(min(WARM_UP, steps), WARM_UP_RATE), 0)
    _look_for_likeness(llava)
    llava.model.vision_tower.requires_grad_(False)
    learn(answering, SCENES, _Plan(steps, RATE), WARM_UP)


@torch.no_grad()
def _look_for_likeness(llava: Any) -> None:
    """Keys start as queries and answers as words, so that a shape attends to patches like it."""
    decoder = llava.model.language_model
    for layer in decoder.layers:
        layer.self_attn.k_proj.weight.copy_(layer.self_attn.q_proj.weight)
    llava.lm_head.weight.copy_(decoder.embed_tokens.weight)


def _naming(llava: Any, names: nn.ModuleDict, drawn: Scenes) -> Tensor:
    """The loss of naming each patch by words, and of CLS saying which shapes are there.

    Names are similarities of projected patches to word embeddings, as a projector is aligned before
    a LLaVA is tuned.
    """
    words = llava.model.language_model.embed_tokens.weight
    rows = torch.arange(PATCHES) // scenes.GRID
    out = llava.model.vision_tower(drawn.pixels, output_hidden_states=True)
    patches = out.hidden_states[llava.config.vision_feature_layer][:, 1:]
    projected = llava.model.multi_modal_projector(patches)  # (B, PATCHES, d)
    nothing = names["nothing"](patches)
    present = torch.zeros(len(drawn.shape), scenes.SHAPES + 1).scatter(1, drawn.shape, 1.0)
    named = [
        (scenes.SHAPE_0, scenes.SHAPES, drawn.shape),
        (scenes.COLOUR_0, scenes.COLOURS, drawn.colour),
        (scenes.ROW_0, scenes.GRID, rows.expand_as(drawn.shape)),
    ]
    seen = names["present"](out.last_hidden_state[:, 0])
    loss = 0.3 * F.binary_cross_entropy_with_logits(seen, present[:, : scenes.SHAPES])
    for first, count, labels in named:
        similar = SHARP * projected @ words[first : first + count].T  # (B, PATCHES, count)
        logits = torch.cat((similar, nothing), -1).flatten(0, 1)
        loss = loss + F.cross_entropy(logits, labels.flatten())
    read = names["target"](projected).flatten(0, 1)
    return loss + F.cross_entropy(read, drawn.target.flatten())


def lesson(
    llava: Any, drawn: Scenes, asked: Questions, *, looks: bool = True
) -> tuple[Tensor, Tensor]:
    r"""All questions of a scene in one sequence, each seeing the image and itself alone.

    Every question has the positions that follow the image, so that it is read as it will be when it
    is the only one. Beside the answer a, three things are taught: halfway up the decoder the last
    token names the shape s whose patch is sought; layer 1 attends to the patch p that is asked
    about, the last layer L to the one that holds the answer, q.

    Equation: $L = - \log P(a) - \log P_{half}(s) - \log A_1(p) - \log A_L(q)$

    Without `looks` the two last terms are left out.

    Returns:
        the loss, and logits of the answers (B, Q, V).
    """
    B, Q = asked.answer.shape
    n = 1 + PATCHES
    prompt = Prompt(torch.cat((_image(B), asked.ids.flatten(1)), 1), drawn.pixels)
    with torch.no_grad():
        vision = encode(llava, drawn.pixels)
    hidden = embed(llava, prompt, vision, None).hidden  # (B, n + 2 Q, d)
    turns = torch.tensor([n, n + 1]).repeat(Q)
    positions = torch.cat((torch.arange(n), turns)).expand(B, -1)  # (B, n + 2 Q)
    turn = torch.cat((torch.zeros(n), 1 + torch.arange(2 * Q) // 2))
    causal = torch.ones(n + 2 * Q, n + 2 * Q, dtype=torch.bool).tril()
    seen = causal & ((turn == 0) | (turn == turn[:, None]))
    mask = torch.where(seen, 0.0, MIN_MASK).expand(B, 1, -1, -1)
    decoder, shapes = llava.model.language_model, slice(n + 1, None, 2)
    rotary = decoder.rotary_emb(hidden, positions)
    loss = torch.zeros(())
    for number, layer in enumerate(decoder.layers):
        if looks and number in HOPS:
            scores = attention_scores(layer, hidden, rotary, shapes)[..., 1:n]
            paid = scores.log_softmax(-1).logsumexp(1) - math.log(scores.shape[1])
            where = asked.needed[..., HOPS.index(number), None]
            loss = loss - paid.gather(2, where).mean()  # (B, Q, PATCHES)
        hidden = run_layer(layer, hidden, mask, rotary)
        if number in (LAYERS // 2 - 1, LAYERS - 1):
            logits = llava.lm_head(decoder.norm(hidden[:, shapes]))  # (B, Q, V)
            labels = asked.answer if number == LAYERS - 1 else asked.sought
            loss = loss + F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return loss, logits


def _image(rows: int) -> Tensor:
    start = torch.full((rows, 1 + PATCHES), scenes.IMAGE)
    start[:, 0] = scenes.BOS
    return start


def prompts(drawn: Scenes, asked: Questions) -> Prompt:
    """One row a question: BOS, the image, what is asked, the shape; its answer is the target."""
    B, Q = asked.answer.shape
    ids = torch.cat((_image(B * Q), asked.ids.flatten(0, 1)), 1)
    targets = torch.full_like(ids, IGNORE)
    targets[:, -1] = asked.answer.flatten()
    pixels = drawn.pixels.repeat_interleave(Q, 0)
    return Prompt(ids, pixels, targets=targets, needed=asked.needed.flatten(0, 1))


def batches(seed: int, rows: int = 32, device: str = "cpu") -> Callable[[int], Prompt]:
    """Training batches of the pruner: a step's depends on seed and step alone."""

    def draw(number: int) -> Prompt:
        generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + number)
        drawn = scenes.draw(rows, generator)
        return prompts(drawn, scenes.ask(drawn, 1, generator)).each(lambda part: part.to(device))

    return draw


class Exam:
    """Held-out questions, the tower run once: every selection is judged on the same ones.

    `kind` says what else than usual the scenes are, as `scenes.draw` takes it.
    """

    def __init__(self, llava: Any, questions: int, seed: int, **kind: Any) -> None:
        self.llava = llava
        generator = torch.Generator().manual_seed(7_000_000 + seed)
        self.drawn = scenes.draw(max(1, questions // 8), generator, **kind)
        self.asked = scenes.ask(self.drawn, 8, generator)
        self.prompt = prompts(self.drawn, self.asked).each(lambda part: part.to(llava.device))
        seen = encode(llava, self.drawn.pixels.to(llava.device))
        self.vision: Vision | None = seen.rows(torch.arange(len(seen.cls)).repeat_interleave(8))

    def right(self, stages: Sequence[Stage] = (), draw: int = 0) -> Tensor:
        r"""True for the questions that are answered rightly: (n,) bool, on the CPU.

        Equation: $r_i = [\, \arg\max_v \mathrm{logits}_{iv} = a_i \,]$
        """
        generator = torch.Generator().manual_seed(draw)
        reading = read(self.llava, self.prompt, stages, generator=generator, vision=self.vision)
        return reading.logits[:, -1].argmax(-1).cpu() == self.asked.answer.flatten()

    def accuracy(self, stages: Sequence[Stage] = (), draw: int = 0) -> float:
        r"""Share of right answers.

        Equation: $\frac{1}{n} \sum_i r_i$
        """
        return float(self.right(stages, draw).float().mean())

    def by_kind(self, stages: Sequence[Stage] = ()) -> dict[str, float]:
        r"""Share of right answers for each kind of question that was asked.

        Equation: $\frac{\sum_i r_i\, [\, \kappa_i = \kappa \,]}{\sum_i [\, \kappa_i = \kappa \,]}$
        """
        right, kind = self.right(stages), self.asked.kind.flatten()
        return {
            name: float(right[kind == i].float().mean())
            for i, name in enumerate(KINDS)
            if bool((kind == i).any())
        }


Plans = dict[str, Callable[[int], list[Stage]]]  # stages for an average of tokens a layer
MERGED = 32
PRUNED = (0, 2)  # before which tokens are dropped, ours and others at equal cost
TWICE = ("random", "divprune", "cdpruner", "sparsevlm", "pyramiddrop", "oracle")


def plans(pruner: Pruner) -> Plans:
    """Every selection at equal average tokens: before the model, or before two of its layers."""
    ways: Plans = {
        name: partial(leaving_at, BEFORE, selector)
        for name, selector in REGISTRY.items()
        if selector.before
    }
    ways |= {f"{name}_both": partial(leaving_twice, [REGISTRY[name]] * 2) for name in TWICE}
    ways["ours"] = partial(leaving_twice, [pruner.head_selector(layer) for layer in PRUNED])
    ways["ours_merger"] = lambda k: pruner.stages(split(k), merged=max(MERGED, split(k)[0]))
    return ways


def leaving_at(layer: int, selector: Selector, k: int) -> list[Stage]:
    """k tokens stay before one layer."""
    return [Stage(layer, k, selector)]


def leaving_twice(selectors: Sequence[Selector], k: int) -> list[Stage]:
    """k tokens a layer stay on average, by a selector before each of `PRUNED`."""
    return [Stage(*stage) for stage in zip(PRUNED, split(k), selectors, strict=True)]


def learn(
    llava: Any,
    config: PruningConfig,
    steps: int,
    seed: int,
    *,
    on_step: Callable[[int, Learnt], None] = lambda *_: None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Pruner, Learnt]:
    """A pruner trained on drawn scenes for a frozen model."""
    pruner = Pruner(llava, config, seed=seed).to(llava.device)
    draw = batches(seed, device=str(llava.device))
    history = train(pruner, draw, steps, seed, on_step=on_step, checkpoint=checkpoint)
    return pruner, history
