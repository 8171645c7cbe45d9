"""Heads for real weights: taught on conversations, judged on questions or captions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..errors import InputError
from ..kit.folders import training_in
from ..kit.frozen import load_beside
from ..measure import flops
from ..measure.clock import elapsed
from ..measure.statistics import geometric_interval, mean_interval
from ..spec import OnProgress
from .choice import BEFORE, Stage, check_stages
from .config import PruningConfig, load_config
from .core import read
from .data import CAPTIONS, Example, batches, captions, instruct, question_of, vqa
from .generate import generate
from .llava import load_llava
from .model import Pruner, load_pruner
from .scores import bleu, bleu_counts, vqa_accuracy
from .selectors import REGISTRY
from .spec import EvaluateParams, TrainParams
from .stream import Prompt, tokens_of
from .training import History
from .training import train as train_pruner

K = TypeVar("K")
SHORT = "\nAnswer the question using a single word or phrase."
ANSWER_TOKENS, CAPTION_TOKENS = 10, 64  # at most, where `new` does not say
TIMED = 10  # batches whose reading is timed
SAMPLES = 1000  # of the images, for intervals of scores of captions


def load(source: str, dtype: str, device: str) -> tuple[Any, Any]:
    """Model and processor of a folder or hub id, on a device.

    Raises:
        InputError: for a model that `load_llava` refuses, or one without a processor.
    """
    llava = load_llava(source, dtype=None if dtype == "auto" else getattr(torch, dtype))
    return llava.to(device), load_beside(source, "processor")


def train(params: TrainParams, device: str, on_progress: OnProgress) -> str:
    """Train a pruner on conversations; returns a summary in a sentence.

    Raises:
        InputError: for a model, data or configuration that does not fit, before any work.
        CheckpointError: for a checkpoint of another run.
    """
    examples, left_out = instruct(Path(params.data), skip=params.skip)
    questions = crc32(repr([example.question for example in examples]).encode())
    read = {"examples": questions, "rows": params.rows}
    out, checkpoint = Path(params.out), training_in(params.out, params.every, reading=read)
    llava, processor = load(params.model, params.dtype, device)
    config = load_config(params.config) if params.config else PruningConfig(loss="attention")
    pruner = Pruner(llava, config, seed=params.seed).to(device)
    draw = batches(llava, processor, examples, params.rows, params.seed)

    def on_step(step: int, history: History) -> None:
        status = f"loss {history.loss[-1]:.3f}, {history.accuracy[-1]:.0%} agreed"
        on_progress(step, params.steps, status)

    history = train_pruner(
        pruner, draw, params.steps, params.seed, on_step=on_step, checkpoint=checkpoint
    )
    pruner.save(out / "pruner.pt")
    return (
        f"{len(examples)} examples, {len(left_out)} left out; loss {history.loss[0]:.4f} at the "
        f"first step, {history.loss[-1]:.4f} at the last; pruner.pt in {out}"
    )


def evaluate(params: EvaluateParams, device: str, on_progress: OnProgress) -> str:
    """Answer every question, or caption every image, unpruned and by each selector.

    Returns accuracies, or BLEU-4, what is lost one by one, with 95 % intervals, and
    what the first token costs.

    Raises:
        InputError: for a model, data or pruner that does not fit, before any work.
    """
    folder = Path(params.data)
    captioned = (folder / CAPTIONS).is_file()
    examples, left_out = (captions if captioned else vqa)(folder, skip=params.skip)
    llava, processor = load(params.model, params.dtype, device)
    ours = load_pruner(llava, Path(params.pruner)).stages() if params.pruner else []
    written: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {}
    shares: dict[str, float] = {}
    new = params.new or (CAPTION_TOKENS if captioned else ANSWER_TOKENS)
    for number, begin in enumerate(range(0, len(examples), params.rows)):
        part = examples[begin : begin + params.rows]
        # As LLaVA-1.5 was tuned to answer in a word.
        asked = [replace(example, question=example.question + SHORT) for example in part]
        prompt = question_of(llava, processor, part if captioned else asked)
        plans = compared(llava, params, ours, tokens_of(llava, prompt))
        shares = shares or operations(llava, prompt.each(lambda x: x[:1]), plans)
        turn = number % len(plans)  # who is first changes from batch to batch
        for name in [*plans][turn:] + [*plans][:turn]:
            if number <= TIMED:
                reading = partial(read, llava, prompt, plans[name], cached=True)
                seconds.setdefault(name, []).append(elapsed(reading, device))
            ids = generate(llava, prompt, plans[name], new)
            texts = processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
            written.setdefault(name, []).extend(texts)
        on_progress(begin + len(part), len(examples), f"{len(plans)} ways")
    judged = (caption_scores if captioned else accuracies)(written, examples)
    lines = [f"{len(examples)} {'images' if captioned else 'questions'}, {len(left_out)} left out"]
    for name in plans:
        line = f"{name}: {judged[name]}"
        if name != "unpruned":
            # The first batch warms up, where there is another.
            pairs = list(zip(seconds["unpruned"], seconds[name], strict=True))
            times = geometric_interval([a / b for a, b in pairs[1:] or pairs])
            line += (
                f"; to the first token {shares[name]:.1%} of the operations, {times.value:.2f} "
                f"times as fast ({times.low:.2f} to {times.high:.2f})"
            )
        lines.append(line)
    return "\n".join(lines)


def operations(llava: Any, prompt: Prompt, plans: Mapping[K, Sequence[Stage]]) -> dict[K, float]:
    """Count the operations to each plan's first token, as a share of the unpruned model's."""
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused CPU kernel
        whole = flops.count(partial(read, llava, prompt))
        return {
            name: flops.count(partial(read, llava, prompt, stages)) / whole
            for name, stages in plans.items()
        }


def accuracies(written: Mapping[str, Sequence[str]], examples: Sequence[Example]) -> dict[str, str]:
    """VQA accuracy of each plan, and its loss against the unpruned model, question by question."""
    right = {
        name: [vqa_accuracy(text, e.answers) for text, e in zip(texts, examples, strict=True)]
        for name, texts in written.items()
    }
    judged = {}
    for name, values in right.items():
        mean = mean_interval(values)
        low, high = max(0.0, mean.low), min(1.0, mean.high)
        judged[name] = f"{mean.value:.1%} ({low:.1%} to {high:.1%})"
        if name != "unpruned":
            whole = zip(right["unpruned"], values, strict=True)
            lost = mean_interval([100 * (before - after) for before, after in whole])
            low, high = max(-100.0, lost.low), min(100.0, lost.high)
            judged[name] += f", lost {lost.value:.1f} points ({low:.1f} to {high:.1f})"
    return judged


def caption_scores(
    written: Mapping[str, Sequence[str]], examples: Sequence[Example]
) -> dict[str, str]:
    """BLEU-4 of each plan, and the share of the unpruned model's that it loses.

    BLEU is of all captions at once: its interval is over samples of the images, the same ones for
    every plan.
    """
    answers = [example.answers for example in examples]
    n, draw = len(examples), np.random.default_rng(0)
    samples = np.stack([np.bincount(draw.integers(n, size=n), minlength=n) for _ in range(SAMPLES)])
    judged: dict[str, str] = {}
    whole: NDArray[np.float64] | None = None
    for name, texts in written.items():
        pairs = zip(texts, answers, strict=True)
        counts = np.stack([bleu_counts(*pair) for pair in pairs])  # (n, 10)
        scores = bleu(np.concatenate([counts.sum(0)[None], samples @ counts]))  # (1 + SAMPLES,)
        judged[name] = f"BLEU-4 {scores[0]:.1f}"
        if whole is None:
            whole = scores
        elif whole[0]:
            lost = 100 * (1 - scores / np.where(whole == 0, np.nan, whole))
            low, high = np.nanquantile(lost[1:], [0.025, 0.975])
            judged[name] += f" (lost {lost[0]:.1f} %, {low:.1f} to {high:.1f})"
    return judged


def compared(
    llava: Any, params: EvaluateParams, ours: Sequence[Stage], N: int
) -> dict[str, Sequence[Stage]]:
    """The stages of each selector for images of N tokens, by its name and mean tokens a layer.

    All but ours keep equally many on average: before the model, or, where they read its attention,
    before layer 2, as FastV does.

    Raises:
        InputError: where ours has no pruner, the others no number of tokens, or too few of them.
    """
    layers = llava.config.text_config.num_hidden_layers
    if "ours" in params.selectors and not ours:
        raise InputError("ours needs pruner=, the pruner.pt that train wrote")
    if not ours and not params.tokens:
        raise InputError("give tokens=, the mean visual tokens a layer, or pruner= to keep as many")
    mean = params.tokens or round(mean_tokens(ours, layers, N))
    plans: dict[str, Sequence[Stage]] = {"unpruned": ()}
    for name in params.selectors:
        selector = REGISTRY.get("random" if name == "chance" else name)
        stages, mean_kept = ours, float(mean)
        if selector is not None:
            late = Stage(2, (mean * layers - 2 * N) // (layers - 2), selector)
            stages = [Stage(BEFORE, mean, selector)] if selector.before else [late]
        else:
            mean_kept = mean_tokens(ours, layers, N)
        check_stages(llava, stages, N)
        plans[f"{name}, {mean_kept:.1f} visual tokens a layer"] = stages
    return plans


def mean_tokens(stages: Sequence[Stage], layers: int, N: int) -> float:
    """Visual tokens that a layer reads on average, of N, where tokens leave at these stages."""
    counts, by_layer = [], {stage.layer: stage for stage in stages}
    here = by_layer[BEFORE].keep if BEFORE in by_layer else N
    for layer in range(layers):
        stage = by_layer.get(layer)
        counts.append(here if stage is None or stage.late else stage.keep)
        here = stage.keep if stage else here
    return fmean(counts)
