"""Heads for real weights: taught on a folder of conversations, judged on a folder of questions."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import torch

from ..errors import InputError
from ..kit.folders import training_in
from ..kit.frozen import load_beside
from ..measure.statistics import mean_interval
from ..spec import OnProgress
from .choice import BEFORE, Stage, check_stages
from .config import PruningConfig, load_config
from .data import batches, instruct, question_of, vqa
from .generate import generate
from .llava import load_llava, visual_tokens
from .model import Pruner, load_pruner
from .selectors import REGISTRY
from .spec import EvaluateParams, TrainParams
from .training import History
from .training import train as train_pruner

SHORT = "\nAnswer the question using a single word or phrase."


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
    out, kept = Path(params.out), training_in(params.out, params.every, reading=read)
    llava, processor = load(params.model, params.dtype, device)
    config = load_config(params.config) if params.config else PruningConfig(loss="attention")
    pruner = Pruner(llava, config, seed=params.seed).to(device)
    draw = batches(llava, processor, examples, params.rows, params.seed)

    def on_step(step: int, history: History) -> None:
        status = f"loss {history.loss[-1]:.3f}, {history.accuracy[-1]:.0%} agreed"
        on_progress(step, params.steps, status)

    history = train_pruner(
        pruner, draw, params.steps, params.seed, on_step=on_step, checkpoint=kept
    )
    pruner.save(out / "pruner.pt")
    return (
        f"{len(examples)} examples, {len(left_out)} left out; loss {history.loss[0]:.4f} at the "
        f"first step, {history.loss[-1]:.4f} at the last; pruner.pt in {out}"
    )


def evaluate(params: EvaluateParams, device: str, on_progress: OnProgress) -> str:
    """Answer every question unpruned and by each selector; returns accuracies, and what is lost
    question by question, with 95 % intervals.

    Raises:
        InputError: for a model, data or pruner that does not fit, before any work.
    """
    examples, left_out = vqa(Path(params.data), skip=params.skip)
    llava, processor = load(params.model, params.dtype, device)
    plans = compared(llava, params)
    right: dict[str, list[float]] = {name: [] for name in plans}
    for begin in range(0, len(examples), params.rows):
        part = examples[begin : begin + params.rows]
        # As LLaVA-1.5 was tuned to answer in a word.
        asked = [replace(example, question=example.question + SHORT) for example in part]
        prompt = question_of(llava, processor, asked)
        for name, stages in plans.items():
            ids = generate(llava, prompt, stages, params.new)
            texts = processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
            pairs = zip(texts, part, strict=True)
            right[name] += [vqa_accuracy(text, example.answers) for text, example in pairs]
        status = f"{fmean(right[name]):.1%}"
        on_progress(begin + len(part), len(examples), status)
    lines = [f"{len(examples)} questions, {len(left_out)} left out"]
    for name, values in right.items():
        mean = mean_interval(values)
        low, high = max(0.0, mean.low), min(1.0, mean.high)
        line = f"{name}: {mean.value:.1%} ({low:.1%} to {high:.1%})"
        if plans[name]:
            whole = zip(right["unpruned"], values, strict=True)
            lost = mean_interval([100 * (before - after) for before, after in whole])
            low, high = max(-100.0, lost.low), min(100.0, lost.high)
            line += f", lost {lost.value:.1f} points ({low:.1f} to {high:.1f})"
        lines.append(line)
    return "\n".join(lines)


def compared(llava: Any, params: EvaluateParams) -> dict[str, Sequence[Stage]]:
    """The stages of each selector, by its name and mean visual tokens a layer.

    All but ours keep equally many on average: before the model, or, where they read its attention,
    before layer 2, as FastV does.

    Raises:
        InputError: where ours has no pruner, the others no number of tokens, or too few of them.
    """
    layers, N = llava.config.text_config.num_hidden_layers, visual_tokens(llava)
    ours = load_pruner(llava, Path(params.pruner)).stages() if params.pruner else []
    if "ours" in params.selectors and not ours:
        raise InputError("ours needs pruner=, the pruner.pt that train wrote")
    mean = params.tokens or round(mean_tokens(ours, layers, N))
    if not ours and not params.tokens:
        raise InputError("give tokens=, the mean visual tokens a layer, or pruner= to keep as many")
    plans: dict[str, Sequence[Stage]] = {"unpruned": ()}
    for name in params.selectors:
        selector = REGISTRY.get("random" if name == "chance" else name)
        stages = ours
        if selector is not None:
            late = Stage(2, (mean * layers - 2 * N) // (layers - 2), selector)
            stages = [Stage(BEFORE, mean, selector)] if selector.before else [late]
        check_stages(llava, stages)
        kept = mean_tokens(stages, layers, N)
        plans[f"{name}, {kept:.1f} visual tokens a layer"] = stages
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


def vqa_accuracy(given: str, answers: Sequence[str]) -> float:
    r"""VQA's accuracy: people who gave this answer, three are enough; mean over who is left out.

    Equation: $a = \operatorname{mean}_i \min \left( 1, \frac{1}{3}
        \sum_{j \ne i} [\, a_j = s \,] \right)$, and $[\, a_1 = s \,]$ with one answer alone
    """
    ours, known = _plain(given), [_plain(answer) for answer in answers]
    if len(known) == 1:
        return float(ours == known[0])
    same = [answer == ours for answer in known]
    return sum(min(1.0, (sum(same) - mine) / 3) for mine in same) / len(same)


_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = {"a", "an", "the"}
_NUMBERS = "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905
_DIGITS = {"none": "0"} | {word: str(number) for number, word in enumerate(_NUMBERS)}
_CONTRACTIONS = """
    ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd
    how'll how's i'd i'm i've isn't it'd it'll let's ma'am might've mightn't must've mustn't needn't
    oughtn't shan't she'd she's should've shouldn't somebody's someone's something's that'd that's
    there'd there're there's they'd they'll they're they've wasn't we'd we've weren't
    what'll what're what's what've when's where'd where's where've who'd who'll who's who've why'll
    why're why's
    won't would've wouldn't y'all you'd you'll you're you've
"""
_WHOLE = {word.replace("'", ""): word for word in _CONTRACTIONS.split()}


def _plain(text: str) -> str:
    """An answer as VQA's evaluation compares it (Antol et al., arXiv:1505.00468; its public code).

    Lower case; punctuation goes, or is a blank inside a word; numbers up to ten in figures; no
    articles; contractions with their apostrophe.
    """
    text = " ".join(text.lower().split())
    has_thousands = re.search(r"\d,\d", text) is not None
    for mark in _PUNCTUATION:
        apart = f"{mark} " in text or f" {mark}" in text or has_thousands
        text = text.replace(mark, "" if apart else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = (_DIGITS.get(word, word) for word in text.split())
    return " ".join(_WHOLE.get(word, word) for word in words if word not in _ARTICLES)
