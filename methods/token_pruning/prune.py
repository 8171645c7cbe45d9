"""Pruning of a model of transformers in one line: `prune(model, "fastv", keep=64)`."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .choice import BEFORE, Stage, check_stages
from .generate import check_mode, own_prompt, write
from .llava import FAMILIES, check_kind
from .selectors import REGISTRY
from .stream import Prompt, tokens_of

# What `generate` takes that would change the prompt or its cache, and is not read here.
UNREAD = (
    "assistant_model", "inputs_embeds", "negative_prompt_attention_mask", "negative_prompt_ids",
    "past_key_values", "position_ids",
)  # fmt: skip
FIRST_INSIDE = 2  # the layer of choices that need attention, as FastV has it


def prune(model: Any, selector: str = "fastv", *, keep: int, layer: int | None = None) -> Any:
    """Make a model's `generate` read at most `keep` visual tokens an image, from now on.

    The model is one of transformers' own, such as `AutoModelForImageTextToText` loads: LLaVA-1.5,
    LLaVA-NeXT, Qwen2-VL, Qwen2.5-VL or Qwen3-VL. Weights and code stay as they are, and
    `del model.generate` takes the pruning back.

    Args:
        model: greedy or sampled decoding, rows padded on the left.
        selector: a name of `selectors.REGISTRY`: fastv, divprune, cdpruner, pyramiddrop, ...
        keep: visual tokens of an image that stay.
        layer: they leave before this decoder layer; where not given before the first, or before
            layer 2 for a selector that reads attention.

    Returns:
        the model.

    Raises:
        InputError: for another kind of model, an unknown selector, or a layer that is not there.
    """
    check_kind(model.config)
    if selector not in REGISTRY:
        raise InputError(f"no selector {selector!r}; there are {', '.join(REGISTRY)}")
    if type(keep) is not int or keep < 1:
        raise InputError(f"keep must be a whole number of visual tokens, at least 1, not {keep!r}")
    chosen = REGISTRY[selector]
    if layer is None:
        layer = BEFORE if chosen.before else FIRST_INSIDE
    check_stages(model, [Stage(layer, keep, chosen)], keep)
    model.generate = partial(_generate, model, Stage(layer, keep, chosen))
    return model


@torch.no_grad()
def _generate(
    model: Any,
    stage: Stage,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    **given: Any,
) -> Tensor:
    """Generate as the class does, after a pruned prompt: the prompt and what follows, (B, T)."""
    if given.get("streamer") is not None or given.get("return_dict_in_generate"):
        raise InputError("pruned generation returns ids alone: no streamer, no dictionary")
    if unread := [name for name in UNREAD if given.get(name) is not None]:
        raise InputError(f"pruned generation begins with a whole prompt: no {', '.join(unread)}")
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    settings = {name: value for name, value in given.items() if name not in tensors}
    if model.config.model_type in FAMILIES:
        prompt = own_prompt(model, {"input_ids": input_ids, "attention_mask": mask, **tensors})
    else:
        prompt = Prompt(input_ids, tensors.get("pixel_values"), mask.bool())
    images = tokens_of(model, prompt)
    keep = min(stage.keep, images) if images else stage.keep
    stages = [Stage(stage.layer, keep, stage.selector)]

    def decode(llava: Any, ids: Tensor, **prepared: Any) -> Tensor:
        check_mode(prepared["generation_config"])
        return torch.cat((ids, write(prompt, stages, generator, llava, ids, **prepared)), 1)

    ids: Tensor = type(model).generate(
        model, input_ids, attention_mask=mask, custom_generate=decode, **settings
    )
    return ids
