"""One's own Qwen: trained on a folder of text, judged on a tenth of it held out, written with."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from methods.concept_lm.base import check_tokenizer, load_base
from methods.concept_lm.baselines import shuffled_codes
from methods.concept_lm.config import ConceptConfig, ConceptError, recommended
from methods.concept_lm.data import Corpus, folder
from methods.concept_lm.decode import generate
from methods.concept_lm.marks import in_words, marks
from methods.concept_lm.model import ConceptLM, token_nll
from methods.concept_lm.spec import GenerateParams, TrainParams
from methods.concept_lm.train import Plan
from methods.concept_lm.train import train as train_learner
from methods.kit.checkpoint import load_weights, read_state, save_state, state_of
from methods.kit.training import History

Tell = Callable[[float, float, str], None]
WEIGHTS = "concepts.pt"


def load(source: str, dtype: str, device: str) -> tuple[Any, Any]:
    """Base and tokenizer of a folder or hub id, on a device.

    Raises:
        ConceptError: for a base that `load_base` refuses, or one without a fitting tokenizer.
    """
    base = load_base(source, dtype=None if dtype == "auto" else getattr(torch, dtype))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ConceptError(f"{source!r} has no tokenizer: {str(error).splitlines()[0]}") from error
    check_tokenizer(tokenizer, base.config)
    return base.to(device), tokenizer


def tokenised(text: Corpus, tokenizer: Any) -> Corpus:
    """A corpus of bytes as token ids; what is no UTF-8 is replaced."""

    def ids(side: Tensor) -> Tensor:
        spelt = bytes(side.tolist()).decode("utf-8", "replace")
        return torch.tensor(tokenizer(spelt, verbose=False)["input_ids"], dtype=torch.long)

    return Corpus(ids(text.train), ids(text.valid), text.digest)


def build(base: Any, config: ConceptConfig, seed: int = 0) -> ConceptLM:
    """v2 on a base; what is new is kept in single precision, so that small steps are not lost."""
    model = ConceptLM(base, config, seed=seed)
    model.head.float()
    return model


def precision(base: Any) -> AbstractContextManager[Any]:
    """Half precision where the base has it: its maps run in its own type, new parts are cast."""
    dtype, device = base.dtype, base.device
    half = dtype != torch.float32
    return torch.autocast(device.type, dtype if half else None, enabled=half)


@dataclass
class OwnText:
    """v2 on windows of one's own text."""

    model: ConceptLM
    corpus: Corpus
    params: TrainParams
    device: str

    def module(self) -> nn.Module:
        """The model."""
        return self.model

    def batch(self, step: int) -> Tensor:
        r"""The token ids of a step: (rows, length).

        Equation: $x = \mathrm{batch}(\mathrm{seed}, i)$
        """
        args = self.params.rows, self.params.length, self.params.seed
        return self.corpus.batch(step, *args).to(self.device)

    def training_loss(self, step: int) -> Tensor:
        r"""The model's loss on a step's batch: scalar nats.

        Equation: $L = L_{\mathrm{v2}}(x)$, that of `ConceptLM.loss`
        """
        x = self.batch(step)
        with precision(self.model.causal_lm):
            output = self.model(x, noise="draw")
            self.model.observe(output)
            return self.model.loss(output, x)


@torch.no_grad()
def bits(logits_of: Callable[[Tensor], Tensor], x: Tensor, sizes: int) -> float:
    """Bits a byte of windows (rows, length), row by row; `sizes` bytes are predicted in all."""
    nll = sum(float(token_nll(logits_of(row[None]).float(), row[None]).sum()) for row in x)
    return nll / math.log(2) / sizes


def train(params: TrainParams, device: str, tell: Tell) -> str:
    """Teach a Qwen to compress; bits a byte before and after, in words.

    Raises:
        ConceptError: for a model, data or split that does not fit, before any work.
        CheckpointError: for a checkpoint of another run.
    """
    out = Path(params.out)
    if not out.is_dir():
        raise ConceptError(f"out={params.out!r} is no folder; make it first")
    text = folder(params.data)
    base, tokenizer = load(params.model, params.dtype, device)
    corpus = tokenised(text, tokenizer)
    layers = base.config.num_hidden_layers
    edge = params.edge or max(1, layers // 7)
    config = recommended(
        edge, layers - 2 * edge, edge, rho=params.rho, n_concepts=params.n_concepts
    )
    config.fit(layers)
    x = corpus.judged(params.judged, params.length).to(device)
    spelt = [tokenizer.decode(row[1:]).encode() for row in x]
    sizes = sum(len(one) for one in spelt)
    before = bits(lambda row: base(row, use_cache=False).logits, x, sizes)
    learner = OwnText(build(base, config, params.seed), corpus, params, device)

    def on_step(step: int, history: History) -> None:
        tell(step, params.steps, f"loss {history.loss[-1]:.3f}")

    history = train_learner(
        learner,
        Plan(params.steps, lr=params.lr, seed=params.seed),
        on_step=on_step,
        checkpoint=out / "training.pt",
        every=params.every,
        describe={"model": config.as_dict(), "text": corpus.digest},
    )
    model = learner.model
    with precision(model.causal_lm):
        model.settle([learner.batch(i) for i in range(4)])
        after = bits(lambda row: model(row).logits, x, sizes)
        shuffled = bits(lambda row: model(row, codes=shuffled_codes).logits, x, sizes)
        shown = x[0, : min(params.length, 128)]
        read = in_words(shown, marks(model, shown), tokenizer.decode)
    save_state(out / WEIGHTS, {"about": {"config": config.as_dict()}, "weights": state_of(model)})
    return (
        f"{len(corpus.train)} tokens of {corpus.digest}; loss {history.loss[0]:.4f} at the first "
        f"step, {history.loss[-1]:.4f} at the last; {WEIGHTS} in {out}\n"
        f"held-out bits a byte: {before:.3f} before (the base, every layer), {after:.3f} after, "
        f"{shuffled:.3f} with codes shuffled\n\n"
        f"Concepts [code: nearest tokens] in held-out text:\n{read}"
    )


def write(params: GenerateParams, device: str, tell: Tell) -> str:
    """Go on from a prompt with what `train` wrote: the text, then the same with its concepts.

    Raises:
        ConceptError: for a model that does not fit, or a prompt without tokens.
        CheckpointError: for weights that are none, or of another base.
    """
    path = Path(params.out) / WEIGHTS
    state = read_state(path)
    base, tokenizer = load(params.model, params.dtype, device)
    model = build(base, ConceptConfig(**state["about"]["config"]))
    load_weights(model, state["weights"], path.name)
    model.to(device).eval()
    prompt = torch.tensor([tokenizer(params.prompt)["input_ids"]], dtype=torch.long, device=device)
    source = torch.Generator(device).manual_seed(params.seed)
    with precision(model.causal_lm):
        new = generate(model, prompt, params.new, temperature=params.temperature, generator=source)
        x = torch.cat([prompt, new], 1)[0]
        read = in_words(x, marks(model, x), tokenizer.decode)
    tell(1, 1, "written")
    return f"{tokenizer.decode(x)}\n\nConcepts [code: nearest tokens]:\n{read}"
