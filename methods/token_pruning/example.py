"""Both stages around a tiny random LLaVA: what `read` runs to show its shapes."""

from .checks import answered, example, prompt_of, pruner_of
from .core import read
from .generate import generate
from .training import train


def main() -> None:
    """A training step of pruner and discriminator, a pruned reading, and words after it."""
    llava = example("cpu")
    pruner = pruner_of(llava)
    train(pruner, lambda _: answered(llava), 1)
    prompt = prompt_of(llava)
    read(llava, prompt, pruner.stages())
    generate(llava, prompt, pruner.stages(), 2)  # (batch, new)
