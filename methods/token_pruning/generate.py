"""Writing after a pruned prompt: token by token, and in words where a processor is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.generation import (
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from methods.token_pruning.config import PruningError
from methods.token_pruning.llava import images_in
from methods.token_pruning.loop import Stage, read, step
from methods.token_pruning.stream import Prompt

NEW = 20  # tokens written where neither the call nor generation_config says how many
TEMPLATE = "USER: {images}{question} ASSISTANT:"  # LLaVA-1.5's, where a processor has none
ELSEWHERE = "measure it with transformers' own generate, unpruned, or set it to {}"


@dataclass(frozen=True)
class Rules:
    """What of a model's generation_config is done here: how a token is chosen and when to stop."""

    new: int
    stop: tuple[int, ...]
    pad: int
    warpers: tuple[Any, ...] | None  # None: the likeliest token

    @classmethod
    def of(cls, llava: Any, prompt: Prompt, new: int | None) -> "Rules":
        """Read the model's generation_config.

        Raises:
            PruningError: for no room to write, and for what is not done here, beam search first.
        """
        told = llava.generation_config
        for name, plain in (
            ("num_beams", 1), ("repetition_penalty", 1.0), ("no_repeat_ngram_size", 0),
            ("num_return_sequences", 1), ("min_new_tokens", 0), ("penalty_alpha", 0.0),
        ):  # fmt: skip
            value = getattr(told, name, None)
            if value not in (None, plain):
                raise PruningError(
                    f"generation_config.{name} is {value}; pruned decoding is greedy or samples by "
                    f"temperature, top_k and top_p: {ELSEWHERE.format(plain)}"
                )
        new = new if new is not None else (told.max_new_tokens or NEW)
        room = llava.config.text_config.max_position_embeddings - prompt.ids.shape[1]
        if not 1 <= new <= room:
            raise PruningError(f"{new} new tokens; the model has room for 1 to {room}")
        stop = told.eos_token_id
        stop = () if stop is None else tuple(stop) if isinstance(stop, list) else (stop,)
        pad = told.pad_token_id if told.pad_token_id is not None else (*stop, 0)[0]
        warpers = None
        if told.do_sample:
            found: list[Any] = []
            if told.temperature not in (None, 1.0):
                found.append(TemperatureLogitsWarper(told.temperature))
            if told.top_k:
                found.append(TopKLogitsWarper(told.top_k))
            if told.top_p not in (None, 1.0):
                found.append(TopPLogitsWarper(told.top_p))
            warpers = tuple(found)
        return cls(new, stop, pad, warpers)

    def choose(self, logits: Tensor, generator: torch.Generator | None) -> Tensor:
        r"""The next token of each row (B,) from logits (B, V).

        Equation: $y = \arg\max_v l_v$, or $y \sim \mathrm{softmax}(\mathrm{warped}(l))$
        """
        if self.warpers is None:
            return logits.argmax(-1)
        scores = logits.float()
        for warp in self.warpers:
            scores = warp(None, scores)
        return torch.multinomial(scores.softmax(-1), 1, generator=generator)[:, 0]


@torch.no_grad()
def generate(
    llava: Any,
    prompt: Prompt,
    stages: Sequence[Stage],
    new: int | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Continue every row: token ids (B, n), n at most `new`; after its end a row is padded.

    Equation: $y_t = \mathrm{choose}(\mathrm{logits}(x, y_0, \ldots, y_{t - 1}))$, x pruned

    Stops, pads and samples as the model's generation_config says. Rows may hold different numbers
    of images, none among them: rows of one number are read together.

    Args:
        llava: the model.
        prompt: rows padded on the left.
        stages: where visual tokens leave.
        new: tokens at most; generation_config's, else 20, where not given.
        generator: of samples, and of random selections.

    Raises:
        PruningError: for beam search and penalties, padding on the right, no room to write.
    """
    rules = Rules.of(llava, prompt, new)
    counts = images_in(llava, prompt.ids, prompt.real(), prompt.pixels)
    first = counts.cumsum(0) - counts  # number of each row's first image
    out = torch.full((len(counts), rules.new), rules.pad, device=prompt.ids.device)
    longest = 0
    for count in sorted(set(counts.tolist())):
        rows = (counts == count).nonzero()[:, 0]
        images = (first[rows, None] + torch.arange(count, device=rows.device)).flatten()
        part = _rows(prompt, rows, images if count else None)
        found = _continue(llava, part, stages, rules, generator)
        out[rows, : found.shape[1]] = found
        longest = max(longest, found.shape[1])
    return out[:, :longest]


def _rows(prompt: Prompt, rows: Tensor, images: Tensor | None) -> Prompt:
    """Some rows of a prompt with their images."""
    pixels = None if images is None or prompt.pixels is None else prompt.pixels[images]
    return replace(replace(prompt, pixels=None).each(lambda part: part[rows]), pixels=pixels)


def _continue(
    llava: Any,
    prompt: Prompt,
    stages: Sequence[Stage],
    rules: Rules,
    generator: torch.Generator | None,
) -> Tensor:
    """Token ids (B, n) after rows that hold as many images each."""
    found = read(llava, prompt, stages, cached=True, generator=generator)
    assert found.cache is not None
    stop = torch.tensor(rules.stop, device=prompt.ids.device, dtype=torch.long)
    logits, out = found.logits[:, -1], []
    done = torch.zeros(len(prompt.ids), dtype=torch.bool, device=prompt.ids.device)
    while True:
        token = rules.choose(logits, generator).masked_fill(done, rules.pad)  # (B,)
        out.append(token)
        done = done | torch.isin(token, stop)
        if len(out) == rules.new or bool(done.all()):
            return torch.stack(out, 1)
        logits = step(llava, token[:, None], found.cache)


def ask(llava: Any, processor: Any, questions: Sequence[str], images: Sequence[Any]) -> Prompt:
    """A prompt from words and images; an entry of `images` is one, a list of them, or None.

    Raises:
        PruningError: for another number of images than questions, or a processor without padding.
    """
    if len(questions) != len(images) or not questions:
        raise PruningError(f"{len(questions)} questions and {len(images)} entries of images")
    several = [[] if i is None else list(i) if isinstance(i, list | tuple) else [i] for i in images]
    texts = [
        _worded(processor, question, len(own))
        for question, own in zip(questions, several, strict=True)
    ]
    tokenizer = processor.tokenizer
    if tokenizer.pad_token is None:
        raise PruningError("the processor's tokenizer has no padding token; set pad_token")
    tokenizer.padding_side = "left"
    flat = [image for own in several for image in own]
    made = processor(images=flat or None, text=texts, padding=True, return_tensors="pt")
    pixels = made.get("pixel_values")
    return Prompt(
        made["input_ids"].to(llava.device),
        None if pixels is None else pixels.to(llava.device, llava.dtype),
        made["attention_mask"].bool().to(llava.device),
    )


def _worded(processor: Any, question: str, images: int) -> str:
    """A question in the words the model was tuned with."""
    if getattr(processor, "chat_template", None):
        parts = [{"type": "image"}] * images + [{"type": "text", "text": question}]
        turn = [{"role": "user", "content": parts}]
        return str(processor.apply_chat_template(turn, add_generation_prompt=True))
    return TEMPLATE.format(images=f"{processor.image_token}\n" * images, question=question)


def answer(
    llava: Any,
    processor: Any,
    questions: Sequence[str],
    images: Sequence[Any],
    stages: Sequence[Stage],
    *,
    new: int | None = None,
    generator: torch.Generator | None = None,
) -> list[str]:
    """What the pruned model says: one text a question.

    Args:
        llava: the model.
        processor: `AutoProcessor.from_pretrained` of the same folder or hub id.
        questions: in plain words.
        images: for each question an image, a list of images, or None.
        stages: where visual tokens leave.
        new: tokens at most.
        generator: of samples.

    Raises:
        PruningError: for what `ask` and `generate` refuse.
    """
    prompt = ask(llava, processor, questions, images)
    ids = generate(llava, prompt, stages, new, generator=generator)
    told = processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text.strip() for text in told]
