"""Generation after a pruned prompt: token ids, or text where a processor is given."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .choice import Stage
from .core import read
from .llava import FAMILIES
from .stream import Cache, Prompt, fitting, images_in, rotations, run_layer

NEW = 20  # tokens generated where neither the call nor generation_config says how many
TEMPLATE = "USER: {images}{question} ASSISTANT:"  # LLaVA-1.5's, where a processor has none


@torch.no_grad()
def step(llava: Any, token: Tensor, cache: Cache) -> Tensor:
    r"""Predict after one more token of each row: (B, 1) ids -> (B, V) logits; the cache grows.

    Equation: $\mathrm{logits} = W\, \mathrm{norm}(h^L), \quad
    h^{l + 1} = \mathrm{Layer}_l(h^l; K_l, V_l), \quad h^0 = E_x$
    """
    decoder = llava.model.language_model
    hidden = decoder.embed_tokens(token)
    rotary = rotations(decoder, hidden, cache.position)
    for number, layer in enumerate(decoder.layers):
        bias, mask = cache.bias[number], None
        if bias is not None:
            bias = cache.bias[number] = torch.cat((bias, bias.new_zeros(token.shape)), 1)
            mask = fitting(bias, hidden)[:, None, None]
        hidden = run_layer(layer, hidden, mask, rotary, cache)
    cache.position = cache.position + 1
    return torch.squeeze(llava.lm_head(decoder.norm(hidden)), 1)


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

    Stops, pads, samples and weighs tokens as the model's generation_config says: transformers' own
    `generate` prepares both, and `write` goes on from there. Rows may hold different numbers of
    images, none among them: rows of one number are read together.

    Args:
        llava: the model.
        prompt: rows padded on the left.
        stages: where visual tokens leave.
        new: tokens at most; generation_config's, else 20, where not given.
        generator: of samples, and of random selections.

    Raises:
        InputError: for beam search, padding on the right, no room to write.
    """
    config = llava.generation_config
    check_mode(config)
    new = new if new is not None else (config.max_new_tokens or NEW)
    room = llava.config.text_config.max_position_embeddings - prompt.ids.shape[1]
    if not 1 <= new <= room:
        raise InputError(f"{new} new tokens; the model has room for 1 to {room}")
    counts = images_in(llava, prompt)
    first = counts.cumsum(0) - counts  # number of each row's first image
    out = torch.full((len(counts), new), _padding(config), device=prompt.ids.device)
    longest = 0
    for count in sorted(set(counts.tolist())):
        rows = (counts == count).nonzero()[:, 0]
        images = (first[rows, None] + torch.arange(count, device=rows.device)).flatten()
        part = _rows(prompt, rows, images if count else None)
        written = type(llava).generate(
            llava,
            part.ids,
            attention_mask=part.real().long(),
            max_new_tokens=new,
            custom_generate=partial(write, part, stages, generator),
        )
        out[rows, : written.shape[1]] = written
        longest = max(longest, written.shape[1])
    return out[:, :longest]


def check_mode(config: Any) -> None:
    """Refuse a way of decoding other than greedy search and sampling; raises InputError."""
    mode = config.get_generation_mode()
    if mode not in ("greedy_search", "sample") or config.num_return_sequences not in (None, 1):
        asked = f"{mode.value}, {config.num_return_sequences or 1} a row"
        raise InputError(
            "pruned decoding is greedy or samples, once a row; generation_config asks for "
            f"{asked}: set num_beams and num_return_sequences to 1"
        )


def _padding(config: Any) -> int:
    """The id that pads a finished row: the padding token, or else the first that ends a row."""
    ends = config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return next((i for i in (config.pad_token_id, *ends) if i is not None), 0)


def _rows(prompt: Prompt, rows: Tensor, images: Tensor | None) -> Prompt:
    """Select rows of a prompt, and their images."""
    pixels = None if images is None or prompt.pixels is None else prompt.pixels[images]
    return replace(replace(prompt, pixels=None).each(lambda part: part[rows]), pixels=pixels)


def write(
    prompt: Prompt, stages: Sequence[Stage], generator: torch.Generator | None,
    llava: Any, ids: Tensor, *, logits_processor: Any, stopping_criteria: Any,
    generation_config: Any, **_: Any,
) -> Tensor:  # fmt: skip
    r"""Decode for transformers' `generate`, rows of equally many images: new ids (B, n).

    Equation: $y_t = \mathrm{choose}(\mathrm{logits}(x, y_0, \ldots, y_{t - 1}))$, x pruned
    """
    reading = read(llava, prompt, stages, cached=True, generator=generator)
    logits, begin = reading.logits[:, -1], ids.shape[1]
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    while True:
        scores = logits_processor(ids, logits.float())  # (B, V)
        token = scores.argmax(-1)
        if generation_config.do_sample:
            token = torch.multinomial(scores.softmax(-1), 1, generator=generator)[:, 0]
        token = token.masked_fill(done, _padding(generation_config))  # (B,)
        ids = torch.cat((ids, token[:, None]), 1)
        done = done | stopping_criteria(ids, None)
        if bool(done.all()):
            return ids[:, begin:]
        logits = step(llava, token[:, None], reading.cache)


def ask(llava: Any, processor: Any, questions: Sequence[str], images: Sequence[Any]) -> Prompt:
    """A prompt from words and images; an entry of `images` is one, a list of them, or None.

    Raises:
        InputError: for another number of images than questions, or a processor without padding.
    """
    if len(questions) != len(images) or not questions:
        raise InputError(f"{len(questions)} questions and {len(images)} entries of images")
    several = [[] if i is None else list(i) if isinstance(i, list | tuple) else [i] for i in images]
    pairs = zip(questions, several, strict=True)
    texts = [_worded(processor, question, len(entry)) for question, entry in pairs]
    tokenizer = processor.tokenizer
    if tokenizer.pad_token is None:
        raise InputError("the processor's tokenizer has no padding token; set pad_token")
    tokenizer.padding_side = "left"
    flat = [image for entry in several for image in entry]
    inputs = processor(images=flat or None, text=texts, padding=True, return_tensors="pt")
    inputs = inputs.to(llava.device)
    if llava.config.model_type in FAMILIES:
        return own_prompt(llava, inputs)
    return Prompt(inputs["input_ids"], inputs.get("pixel_values"), inputs["attention_mask"].bool())


class _Reached(Exception):  # noqa: N818 - no error: the decoder's input is there
    """The decoder was reached."""


@torch.no_grad()
def own_prompt(model: Any, inputs: Mapping[str, Tensor]) -> Prompt:
    r"""Embed a prompt as the model's own class does: visual tokens in their places, and positions.

    Equation: $h^0 = \mathrm{Class}(x)$, what the class gives its decoder: (B, T, d)

    Whatever the class does before its decoder (tiles and newlines of LLaVA-NeXT, merged patches and
    three-axis positions of Qwen-VL, frames of a video, features of several layers of the tower in
    Qwen3-VL) is done by it: it runs until it calls that.

    Args:
        model: of one of `FAMILIES`.
        inputs: of its processor, among them `input_ids` and `attention_mask`.
    """
    decoder_input: dict[str, Any] = {}

    def reached(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        decoder_input.update(kwargs)
        raise _Reached

    hook = model.model.language_model.register_forward_pre_hook(reached, with_kwargs=True)
    try:
        with suppress(_Reached):
            model(**inputs)
    finally:
        hook.remove()
    ids, places = inputs["input_ids"], decoder_input["position_ids"]
    if places is not None and places.ndim == 3:
        places = places[-3:].movedim(0, 2)
    mask = inputs.get("attention_mask", torch.ones_like(ids)).bool()
    embeds, deep = decoder_input["inputs_embeds"], None
    if decoder_input.get("deepstack_visual_embeds"):
        # (visual, layers, d)
        layers = torch.stack(decoder_input["deepstack_visual_embeds"], 1).to(embeds)
        deep = layers.new_zeros(*ids.shape, *layers.shape[1:])
        deep[decoder_input["visual_pos_masks"]] = layers
    return Prompt(ids, mask=mask, embeds=embeds, places=places, deep=deep)


def _worded(processor: Any, question: str, images: int) -> str:
    """A question in the prompt format that the model was tuned with."""
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
) -> list[str]:
    """The pruned model's answers: one text a question.

    Args:
        llava: the model.
        processor: `AutoProcessor.from_pretrained` of the same folder or hub id.
        questions: in plain words.
        images: for each question an image, a list of images, or None.
        stages: where visual tokens leave.
        new: tokens at most.

    Raises:
        InputError: for what `ask` and `generate` refuse.
    """
    prompt = ask(llava, processor, questions, images)
    ids = generate(llava, prompt, stages, new)
    texts = processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text.strip() for text in texts]
