"""A transformers model that is not trained: random from a configuration, or real weights."""

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError

from ..errors import InputError
from .seeds import seeded


def gguf_in(source: Any) -> tuple[str, dict[str, str]]:
    """A file in GGUF's format as transformers takes it: its folder, and an option with its name."""
    folder, _, file = str(source).rpartition("/")
    return (folder, {"gguf_file": file}) if file.endswith(".gguf") else (str(source), {})


def read_config(source: Any, what: str) -> Any:
    """The configuration itself, or that in a folder, a file or on the hub; InputError for none."""
    if not isinstance(source, str | Path):
        return source
    from transformers import AutoConfig  # noqa: PLC0415 - slow to import

    where, named = gguf_in(source)
    try:
        return AutoConfig.from_pretrained(where, **named)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"no {what} at {str(source)!r}: give a folder with config.json and weights, or a "
            f"hub id this machine can reach ({str(problem).splitlines()[0]})"
        ) from problem


def load_frozen(
    model_class: Any,
    source: Any,
    *,
    dtype: torch.dtype | None = None,
    seed: int = 0,
    **options: Any,
) -> Any:
    """A frozen model of `model_class`, in evaluation mode.

    Args:
        model_class: of transformers.
        source: a configuration (random weights), a path written by `save_pretrained`, a hub id, or
            a file in GGUF's format.
        dtype: of the weights; that of the files, or float32, where not given.
        seed: of random weights.
        options: of the class, such as `add_pooling_layer`.

    Raises:
        InputError: when weights cannot be read, are missing or are no numbers.
    """
    if not isinstance(source, str | Path):
        with seeded(seed):
            model = model_class(source, **options).to(dtype or torch.float32)
        return model.requires_grad_(False).eval()
    where, named = gguf_in(source)
    try:
        model, report = model_class.from_pretrained(
            where, dtype=dtype or "auto", output_loading_info=True, **named, **options
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as problem:
        raise InputError(f"the weights of {source} cannot be read: {problem}") from problem
    # transformers would fill what is missing with random numbers and only warn.
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise InputError(f"{source} lacks weights of a {model_class.__name__}: {missing}")
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise InputError(f"{source}: {name} holds NaN or infinity; the weights are damaged")
    return model.requires_grad_(False).eval()


def load_tokenizer(source: str, words: int) -> Any:
    """The tokenizer beside weights of so many words; raises InputError where it has more."""
    tokenizer = load_beside(source, "tokenizer")
    if len(tokenizer) > words:
        raise InputError(
            f"the tokenizer of {source!r} has {len(tokenizer)} words, its weights {words}: they "
            "are not of one model"
        )
    return tokenizer


def load_beside(source: str, what: Literal["tokenizer", "processor"]) -> Any:
    """The tokenizer or processor beside weights; raises InputError where there is none."""
    import transformers  # noqa: PLC0415 - slow to import

    where, named = gguf_in(source)
    try:
        return getattr(transformers, f"Auto{what.title()}").from_pretrained(where, **named)
    except Exception as problem:  # of a damaged file each library raises what it happens to
        reason = f"{type(problem).__name__}: {problem}".splitlines()[0]
        raise InputError(f"{source!r} has no {what} beside its weights: {reason}") from problem
