"""The table of checks: what pruning must not change, and what it must.

Every function takes a device and yields measured values with their bounds.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence

from ..kit.compare import difference
from ..kit.seeds import randn, seeded
from ..kit.threads import one_thread
from ..measure import flops
from ..spec import Case
from . import accounting, toy
from .choice import BEFORE, Selector, Stage
from .config import PruningConfig
from .core import LayerHead, read, straight_through
from .generate import step
from .llava import encode, load_llava, sized, visual_tokens
from .model import AnyMerger, Pruner, make_merger, run
from .selectors import REGISTRY
from .stream import IGNORE, Prompt, embed
from .training import Trainer

WORDS = 6
TINY = PruningConfig(
    pruning_layers=(1, 2, 3),
    keep_tokens=(6, 4, 2),
    d_internal=16,
    d_discriminator=16,
    discriminator_layers=(-1, -2, -3),
    dropout=0.0,
)


def example(device: str) -> Any:
    """A tiny frozen LLaVA: 16 patches, 4 layers, 2 key heads for 4 heads."""
    return load_llava(sized(), dtype=torch.float32).to(device)


def pruner_of(llava: Any, config: PruningConfig = TINY, seed: int = 0) -> Pruner:
    """Merger and heads for a tiny model, not trained."""
    return Pruner(llava, config, seed=seed).to(llava.device).eval()


def prompt_of(
    llava: Any, rows: int = 2, *, padding: tuple[int, ...] = (), seed: int = 1, text: int = WORDS
) -> Prompt:
    """Random words around an image; `padding[i]` places of row i are empty, on the left."""
    generator, image = torch.Generator().manual_seed(seed), llava.config.image_token_id
    n, vocab = visual_tokens(llava), min(1000, llava.config.text_config.vocab_size)
    side = llava.config.vision_config.image_size
    words = torch.randint(3, vocab, (rows, text), generator=generator)
    words[words == image] = 3
    pixels = torch.randn(rows, 3, side, side, generator=generator)
    empty = padding or (0,) * rows
    ids = []
    for row, before in zip(words, empty, strict=True):
        # More words behind, so that all rows end at the same place.
        extra = torch.randint(3, vocab, (max(empty) - before,), generator=generator)
        ids.append(torch.cat((row[:2], torch.full((n,), image), row[2:], extra)))
    whole = pad_sequence(ids, batch_first=True, padding_side="left")
    mask = torch.arange(whole.shape[1]) >= torch.tensor(empty)[:, None]
    return Prompt(whole, pixels.to(llava.dtype), mask).each(lambda part: part.to(llava.device))


def parameters(device: str) -> Iterator[Case]:
    """The source's parts at the sizes of LLaVA-7B, on the meta device."""
    configs = {
        "merger simple": (PruningConfig(merger_type="simple"), 2_624_513),
        "merger question_aware, the source's": (PruningConfig(scored_merge=False), 4_855_297),
        "merger question_aware, no projection back": (PruningConfig(), 4_855_297 - 525_312),
    }
    with torch.device("meta"):
        parts: dict[str, tuple[Any, int]] = {
            label: (make_merger(config, 1024, 4096), count)
            for label, (config, count) in configs.items()
        }
        parts["layer head"] = LayerHead(4096, 512, 4), 5_377_537
    for label, (part, count) in parts.items():
        yield Case(sum(p.numel() for p in part.parameters()), count, "==", label)


def mergers(config: PruningConfig) -> list[tuple[str, AnyMerger]]:
    """Both mergers at small sizes."""
    built = []
    for merger_type in ("simple", "question_aware"):
        changed: Any = {"merger_type": merger_type}
        with seeded(0):
            merger = make_merger(replace(config, **changed), 32, 32)
        assert merger is not None
        built.append((merger_type, merger.eval()))
    return built


def aggregation(device: str) -> Iterator[Case]:
    """The weights of a merged token sum to one; in the source's form to n / M."""
    V, text = randn(2, 16, 32, seed=0, device=device), randn(2, 5, 32, seed=1, device=device)
    given = V, text, torch.ones(2, 5, dtype=torch.bool, device=device), 8
    for name, merger in mergers(TINY):
        for tau in (1.0, 0.1):
            sums = merger.to(device)(*given, tau=tau).weights.sum(1)
            yield Case(difference(sums, torch.ones_like(sums)), 1e-6, label=f"{name} tau {tau}")
    for name, merger in mergers(replace(TINY, scored_merge=False)):
        mean = merger.to(device)(*given, tau=1.0).weights.sum(1).mean()
        error = difference(mean, torch.full_like(mean, 2.0))
        yield Case(error, 1e-5, label=f"{name} of the source: columns average 2")


def answered(llava: Any, rows: int = 4) -> Prompt:
    """A prompt whose last place has something to predict."""
    prompt = prompt_of(llava, rows)
    targets = torch.full_like(prompt.ids, IGNORE)
    targets[:, -1] = 5
    return replace(prompt, targets=targets)


def norm(module: nn.Module) -> float:
    """Norm of all gradients; 0 where there are none."""
    return float(nn.utils.get_total_norm(p.grad for p in module.parameters() if p.grad is not None))


def gradients(device: str) -> Iterator[Case]:
    """Every part learns, each step only its own side, and the model that is pruned never."""
    llava = example(device)
    prompt = answered(llava)
    for kind in ("simple", "question_aware"):
        with seeded(0):
            pruner = pruner_of(llava, replace(TINY, merger_type=kind)).train()
            trainer = Trainer(pruner, 10)
            assert trainer.judge is not None
            trainer.backward(trainer.generator_loss(prompt, 1.0))
            scorer = pruner.get_submodule("merger.scorer")
            yield Case(norm(scorer), 1e-6, ">=", f"scorer of merger {kind}")
            for layer, head in pruner.heads.items():
                yield Case(norm(head), 1e-6, ">=", f"{kind}: head {layer}")
            yield Case(norm(trainer.judge), 0.0, "==", f"{kind}: discriminator after G's step")
            yield Case(norm(llava), 0.0, "==", f"{kind}: the frozen model")
            pruner.zero_grad()
            trainer.judge_gradients(trainer.judge)
            yield Case(norm(trainer.judge), 1e-6, ">=", f"{kind}: discriminator after its step")
            yield Case(norm(pruner), 0.0, "==", f"{kind}: pruner after D's step")
    source = pruner_of(llava, replace(TINY, scored_merge=False, pruning_layers=(), keep_tokens=()))
    soft = source.soft(prompt, encode(llava, prompt.pixels), 1.0, noise=False)
    torch.autograd.backward(soft.logits.square().mean())
    flow = norm(source.get_submodule("merger.scoring.scorer"))
    yield Case(flow, 0.0, "==", "scorer of the source's merger: no gradient")


def hard_forward(device: str) -> Iterator[Case]:
    """The straight-through mask holds zeros and ones only, and the gate of the kept is zero."""
    for tau in (1.0, 0.37, 0.1):
        scores = (3 * randn(8, 40, seed=0, device=device)).requires_grad_()
        index, mask = straight_through(scores, 7, tau)
        hard = torch.zeros_like(mask).scatter(1, index, 1.0)
        yield Case(torch.equal(mask, hard), True, label=f"mask, tau {tau}")
        gate = mask.gather(1, index).log()
        yield Case(difference(gate, torch.zeros_like(gate)), 0.0, "==", label=f"gate, tau {tau}")


def gated(llava: Any, prompt: Prompt, drop: Tensor, log_m: float, *, scale: bool) -> Tensor:
    """Logits with the visual tokens at `drop` (B, k) gated by m, on keys or on hidden states."""
    stream = embed(llava, prompt, encode(llava, prompt.pixels), None)
    chosen = stream.places().gather(1, drop)
    gate = torch.zeros_like(stream.hidden[..., 0]).scatter(1, chosen, log_m)
    if scale:
        stream.hidden = stream.hidden * gate.exp()[..., None]
    else:
        stream.gate = gate
    stream.targets[:, -1] = 0  # the last place predicts
    return run(llava, stream, (), lambda *_: None)[1]


def log_gate(device: str) -> Iterator[Case]:
    """A bias of log m on the keys is dropping as m -> 0; scaling hidden states by m is not."""
    llava = example(device)
    prompt = prompt_of(llava)
    index = torch.arange(0, 16, 2, device=llava.device).expand(2, -1)
    kept = torch.arange(1, 16, 2, device=llava.device).expand(2, -1)
    given = Selector("given", lambda _context, _k: kept)
    dropped = read(llava, prompt, [Stage(0, 8, given)]).logits[:, -1]
    for log_m in (-20.0, -40.0):
        logits = gated(llava, prompt, index, log_m, scale=False)
        yield Case(difference(logits, dropped), 1e-4, label=f"bias, log m = {log_m:.0f}")
    scaled = gated(llava, prompt, index, -7.0, scale=True)
    plain = read(llava, prompt).logits[:, -1]
    away = difference(scaled, dropped) / difference(plain, dropped)
    yield Case(away, 0.1, ">=", "scaling by .001 stays this share away")


def keep_all(pruner: Pruner) -> list[Stage]:
    """Stages that keep everything."""
    n = visual_tokens(pruner.llava)
    return pruner.stages((n,) * len(pruner.config.pruning_layers), merged=n)


def identity(device: str) -> Iterator[Case]:
    """Keeping everything gives transformers' own logits."""
    llava = example(device)
    for kind in ("simple", "question_aware"):
        pruner = pruner_of(llava, replace(TINY, merger_type=kind))
        for padding in ((), (3, 0, 5)):
            prompt = prompt_of(llava, 3, padding=padding)
            positions = (prompt.real().cumsum(1) - 1).clamp_min(0)
            theirs = llava(
                input_ids=prompt.ids,
                pixel_values=prompt.pixels,
                attention_mask=prompt.real().long(),
                position_ids=positions,
            ).logits[:, -1]
            ours = read(llava, prompt, keep_all(pruner)).logits[:, -1]
            label = f"{kind}{', padded' if padding else ''}"
            yield Case(difference(ours, theirs), 1e-5, label=label)


def token_counts(device: str) -> Iterator[Case]:
    """The source's schedule at 7B, and that layers really read as many tokens as are counted."""
    counts = accounting.token_counts(PruningConfig(), 32, 576, 100)
    expected = [388] * 10 + [300] * 10 + [250] * 11 + [200]
    yield Case(counts == expected, True, label="676 -> 388 -> 300 -> 250 -> 200")
    yield Case(all(a >= b for a, b in pairwise(counts)), True, label="falling")
    llava = example(device)
    for drop in ("before", "after"):
        config = replace(TINY, drop=drop)
        read_by = read(llava, prompt_of(llava), pruner_of(llava, config).stages()).counts
        counted = accounting.token_counts(config, 4, 16, WORDS)
        yield Case(read_by == counted, True, label=f"counted and read, dropped {drop}")


def positions(device: str) -> Iterator[Case]:
    """Kept tokens stand in order at their original positions, with a cache and without."""
    llava = example(device)
    prompt = prompt_of(llava, 3)
    stages = pruner_of(llava).stages()
    plain, cached = read(llava, prompt, stages), read(llava, prompt, stages, cached=True)
    for layer, kept in plain.kept.items():
        where = "merger" if layer == BEFORE else f"layer {layer}"
        yield Case(bool((kept.diff(dim=1) > 0).all()), True, label=f"sorted after {where}")
    yield Case(difference(plain.logits, cached.logits), 1e-5, label="gapped, cached and not")
    before = torch.arange(2, device=device).expand(3, 2)  # two words stand before the image
    behind = torch.arange(18, 22, device=device).expand(3, 4)
    last = plain.kept[TINY.pruning_layers[-1]] + 2
    expected = torch.cat((before, last, behind), 1)
    yield Case(torch.equal(plain.positions, expected), True, label="original positions")
    generator = torch.Generator().manual_seed(0)
    chance = [Stage(0, 5, REGISTRY["random"])]
    ours = read(llava, prompt, chance, generator=generator)
    stream = embed(llava, prompt, encode(llava, prompt.pixels), None)
    index = stream.places().gather(1, ours.kept[0])
    gapped = stream.gather(torch.cat((before, index, behind), 1))
    states = llava.model.language_model(
        inputs_embeds=gapped.hidden,
        position_ids=gapped.positions,
        attention_mask=torch.ones_like(gapped.positions),
    ).last_hidden_state
    theirs = llava.lm_head(states[:, -1:])
    yield Case(difference(ours.logits, theirs), 1e-5, label="gapped, transformers with a mask")


def continued(llava: Any, prompt: Prompt, stages: list[Stage], new: int) -> tuple[Tensor, Tensor]:
    """Logits of `new` greedy steps, with the cache and by reading everything again: (B, new, V)."""
    mask = prompt.real()
    asked = mask & (prompt.ids != llava.config.image_token_id)
    reading = read(llava, replace(prompt, asked=asked), stages, cached=True)
    quick, slow, ids, logits = [], [], prompt.ids, reading.logits[:, -1]
    for _ in range(new):
        token = logits.argmax(-1)[:, None]
        logits = step(llava, token, reading.cache)
        quick.append(logits)
        ids = torch.cat((ids, token), 1)
        mask, asked = F.pad(mask, (0, 1), value=True), F.pad(asked, (0, 1))
        longer = replace(prompt, ids=ids, mask=mask, asked=asked)
        slow.append(read(llava, longer, stages).logits[:, -1])
    return torch.stack(quick, 1), torch.stack(slow, 1)


def caching(device: str) -> Iterator[Case]:
    """Decoding with caches of different lengths, five steps; rows of a batch, padded too."""
    llava = example(device)
    stages = pruner_of(llava).stages()
    for label, padding in (("", ()), (", padded", (0, 4, 1, 0, 2, 7, 3, 5))):
        prompt = prompt_of(llava, 8, padding=padding)
        quick, slow = continued(llava, prompt, stages, 5)
        yield Case(difference(quick, slow), 1e-5, label=f"cached == uncached{label}")
        together = read(llava, prompt, stages).logits
        apart = []
        for row in range(8):
            real, alone_row = prompt.real()[row], slice(row, row + 1)
            assert prompt.pixels is not None
            alone = Prompt(prompt.ids[alone_row, real], prompt.pixels[alone_row])
            apart.append(read(llava, alone, stages).logits)
        error = difference(together, torch.cat(apart))
        yield Case(error, 1e-5, label=f"batch 8 == its rows{label}")
    tome = [Stage(BEFORE, 6, REGISTRY["tome"])]
    quick, slow = continued(llava, prompt_of(llava, 2), tome, 5)
    yield Case(difference(quick, slow), 1e-5, label="cached == uncached, merged with a bias")


def counted(device: str) -> Iterator[Case]:
    """Operations by formula and by torch's counter; bytes by formula and in the cache."""
    llava = example(device)
    shape = accounting.Shape.of(llava.config)
    prompt = prompt_of(llava, 1)
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused CPU kernel
        operations = flops.count(lambda: read(llava, prompt))
        yield Case(operations, accounting.total_flops(shape, None, WORDS, "full"), "==", "unpruned")
        configs = [replace(TINY, merger_type=kind) for kind in ("simple", "question_aware", "none")]
        configs += [replace(TINY, drop="after"), replace(TINY, scored_merge=False)]
        for config in configs:
            stages = pruner_of(llava, config).stages()
            total = flops.count(partial(read, llava, prompt, stages))
            name = f"{config.merger_type}, dropped {config.drop}, scored {config.scored_merge}"
            yield Case(total, accounting.total_flops(shape, config, WORDS, "full"), "==", name)
    for label, stages in (("bytes", []), ("bytes, pruned", pruner_of(llava).stages())):
        reading = read(llava, prompt, stages, cached=True)
        expected = accounting.kv_bytes(shape, reading.counts, itemsize=4)
        yield Case(reading.cache.bytes(), expected, "==", label)


def temperature(device: str) -> Iterator[Case]:
    """tau falls from 1 to .1 over the first half and stays."""
    config = PruningConfig()
    yield Case(config.tau(0, 1000), 1.0, "==", "t = 0")
    yield Case(abs(config.tau(250, 1000) - 0.55), 1e-12, label="t = T / 4")
    for t in (500, 501, 750, 1000):
        yield Case(abs(config.tau(t, 1000) - 0.1), 1e-12, label=f"t = {t / 1000} T")


# Enough for a lead over chance of .25 at every budget, and for .1 behind the oracle; with 350 and
# 120 steps these are .47 and .03, for twice the time.
BASE_STEPS, STEPS, QUESTIONS = 150, 60, 512


BUDGETS = (2, 4, 8, 12, 16)


@cache
def small(device: str) -> tuple[Any, Pruner]:
    """A model and its pruner, trained once a process."""
    llava = toy.trained(0, BASE_STEPS).to(device)
    pruner, _ = toy.learn(llava, toy.pruning(loss="attention"), STEPS, 0)
    return llava, pruner


@one_thread
def ordering(device: str) -> Iterator[Case]:
    """Chance, ours and the oracle by the same schedule, on the same questions."""
    llava, pruner = small(device)
    exam = toy.Exam(llava, QUESTIONS, 0)
    ways = toy.plans(pruner)
    for k in BUDGETS:
        chance = sum(exam.accuracy(ways["random_both"](k), draw) for draw in range(5)) / 5
        ours = exam.accuracy(ways["ours"](k))
        best = exam.accuracy(ways["oracle_both"](k))
        yield Case(ours, chance, ">=", f"{k} tokens: ours against chance")
        yield Case(ours, best, "<=", f"{k} tokens: ours against the oracle")
