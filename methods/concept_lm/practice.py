"""One's own Qwen: trained on a folder of text, judged on a tenth of it held out, written with."""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kit.checkpoint import (
    Checkpoint,
    CheckpointError,
    load_weights,
    read_state,
    save_state,
    state_of,
)
from ..kit.corpus import Corpus, folder
from ..kit.frozen import load_tokenizer
from ..kit.training import History, Plan
from ..spec import OnProgress
from .base import add_lora, check_tokens, load_base
from .baselines import equal_split, shuffled_codes
from .config import ConceptConfig
from .decode import generate
from .head import draw
from .marks import in_words, marks, named, nearest
from .model import ConceptLM, token_nll
from .spec import GenerateParams, TrainParams
from .train import OnText
from .train import train as train_learner
from .v3.em import Curriculum, EMSettings, HardEM, models
from .v3.monitors import Stats, diagnose
from .v3.planner import PlanShape
from .v3.role import adapters

WEIGHTS = "concepts.pt"
Learnt = tuple[nn.Module, dict[str, Any], str]  # what was trained, its configuration, a report


def load(source: str, dtype: str, device: str) -> tuple[Any, Any]:
    """Base and tokenizer of a folder or hub id, on a device.

    Raises:
        InputError: for a base that `load_base` refuses, or one without a fitting tokenizer.
    """
    base = load_base(source, dtype=None if dtype == "auto" else getattr(torch, dtype))
    return base.to(device), load_tokenizer(source, base.config.vocab_size)


def tokenised(text: Corpus, tokenizer: Any) -> Corpus:
    """A corpus of bytes as token ids; what is no UTF-8 is replaced."""

    def ids(side: Tensor) -> Tensor:
        spelt = bytes(side.tolist()).decode("utf-8", "replace")
        return torch.tensor(tokenizer(spelt, verbose=False)["input_ids"], dtype=torch.long)

    return Corpus(ids(text.train), ids(text.valid), text.digest)


def build(base: Any, config: ConceptConfig, seed: int = 0) -> ConceptLM:
    """v2 on a base; what is new is kept in single precision, so that small steps are not lost."""
    model = ConceptLM(base, config, seed=seed)
    for new in filter(None, (model.head, model.boundary)):
        new.float()
    return model


def precision(base: Any) -> AbstractContextManager[Any]:
    """Half precision where the base has it: its maps run in its own type, new parts are cast."""
    dtype, device = base.dtype, base.device
    half = dtype != torch.float32
    # Autocast would keep its copies of weights until its block ends, over steps that change them.
    return torch.autocast(device.type, dtype if half else None, enabled=half, cache_enabled=False)


@torch.no_grad()
def bits(logits_of: Callable[[Tensor], Tensor], x: Tensor, sizes: int) -> float:
    r"""Bits a byte of windows (rows, length), row by row; `sizes` bytes are predicted in all.

    Equation: $-\frac{1}{\mathrm{sizes} \ln 2} \sum_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})$
    """
    nll = sum(float(token_nll(logits_of(row[None]), row[None]).sum()) for row in x)
    return nll / math.log(2) / sizes


def train(params: TrainParams, device: str, on_progress: OnProgress) -> str:
    """Teach a Qwen text alone (v1), to compress (v2) or to plan (v3); bits before and after.

    Raises:
        InputError: for a model, data or split that does not fit, before any work.
        CheckpointError: for a checkpoint of another run.
    """
    if not Path(params.out).is_dir():
        raise InputError(f"out={params.out!r} is no folder; make it first")
    text = folder(params.data)
    base, tokenizer = load(params.model, params.dtype, device)
    corpus = tokenised(text, tokenizer)
    check_tokens(corpus.judged(1, params.length), base.config)
    learn = {"v1": tune, "v2": compress, "v3": plan}[params.version]
    model, about, report = learn(params, base, tokenizer, corpus, on_progress)
    about = {"version": params.version, **about}
    save_state(Path(params.out) / WEIGHTS, {"about": about, "weights": state_of(model)})
    return f"{len(corpus.train)} tokens of {corpus.digest}; {WEIGHTS} in {params.out}\n{report}"


def size(tokenizer: Any, x: Tensor) -> int:
    r"""Bytes that windows of tokens (rows, n) spell.

    Equation: $\sum_b \lvert \mathrm{utf8}(\mathrm{decode}(x_b)) \rvert$
    """
    return sum(len(tokenizer.decode(row).encode()) for row in x)


def checkpoint(
    params: TrainParams, about: Mapping[str, Any], corpus: Corpus, name: str = "training"
) -> Checkpoint:
    """The checkpoint of a training; a resumed one must agree in its data and how it reads them."""
    read = params.model_dump(include={"rows", "length", "lr", "seed"})
    about = {**about, "text": corpus.digest, "reading": read}
    return Checkpoint(Path(params.out) / f"{name}.pt", about, every=params.every)


def tune(
    params: TrainParams, base: Any, tokenizer: Any, corpus: Corpus, on_progress: OnProgress
) -> Learnt:
    """v1, the baseline: LoRA alone, on the same batches; the model and the figures."""
    x = corpus.judged(params.judged, params.length).to(base.device)
    sizes = size(tokenizer, x[:, 1:])
    before = bits(lambda row: base(row, use_cache=False).logits, x, sizes)
    model = add_lora(base, ConceptConfig(1, 0, 1), seed=params.seed)
    with precision(base):
        fit_text(params, model, {"version": "v1"}, corpus, on_progress)
        after = bits(lambda row: model(input_ids=row, use_cache=False).logits, x, sizes)
    return model, {}, f"held-out bits a byte: {before:.3f} before (the base), {after:.3f} after"


def fit_text(
    params: TrainParams, model: Any, about: Any, corpus: Corpus, on_progress: OnProgress, *,
    concepts: bool = True,
) -> None:  # fmt: skip
    """Train v1 or v2 on windows of a text, from where it was interrupted."""
    sizes = params.rows, params.length, params.seed
    learner = OnText(model, corpus, *sizes, concepts=concepts)

    def on_step(step: int, history: History) -> None:
        on_progress(step, params.steps, f"loss {history.loss[-1]:.3f}")

    plan = Plan(params.steps, params.lr, seed=params.seed)
    saved = checkpoint(params, {"model": about}, corpus, "training" if concepts else "dropped")
    train_learner(learner, plan, on_step=on_step, checkpoint=saved)


CHOSEN = {
    "rho", "n_concepts", "boundary", "readout", "positions", "shallow_window", "run_cap",
    "usage_bonus",
}  # fmt: skip


def compress(
    params: TrainParams, base: Any, tokenizer: Any, corpus: Corpus, on_progress: OnProgress
) -> Learnt:
    """v2: train and judge; the model, what it is, the figures and a text with its concepts."""
    layers = base.config.num_hidden_layers
    edge = params.edge or max(1, layers // 7)
    split = edge, layers - 2 * edge, edge
    config = ConceptConfig(*split, **params.model_dump(include=CHOSEN))
    x = corpus.judged(params.judged, params.length).to(base.device)
    sizes = size(tokenizer, x[:, 1:])
    before = bits(lambda row: base(row, use_cache=False).logits, x, sizes)
    model = build(base, config, params.seed)
    with precision(base):
        fit_text(params, model, asdict(config), corpus, on_progress)
        after = bits(lambda row: model(row).logits, x, sizes)
        shuffled = bits(lambda row: model(row, codes=shuffled_codes).logits, x, sizes)
        removed = bits(without_concepts(model), x, sizes)
        shown = x[0, :128]
        read = in_words(shown, marks(model, shown), tokenizer.decode)
    bar = layers_dropped(params, config, corpus, x, sizes, on_progress) if params.dropped else ""
    nats = math.log(2) * sizes / x[:, 1:].numel()  # a token, of a bit a byte
    lost = Stats(1.0, shuffled=nats * (shuffled - after), masked=nats * (removed - after))
    report = (
        f"held-out bits a byte: {before:.3f} before (the base, every layer), {after:.3f} after, "
        f"{shuffled:.3f} with codes shuffled, {removed:.3f} with concepts removed{bar}\n"
        f"{monitored(lost)}\nConcepts [code: nearest tokens] in held-out text:\n{read}"
    )
    return model, {"config": asdict(config)}, report


def without_concepts(model: ConceptLM) -> Callable[[Tensor], Tensor]:
    r"""Logits (B, T, V) of tokens (B, T) none of which becomes a concept.

    Equation: $\mathrm{logits} = \mathrm{ConceptLM}(x), \quad c_t = 0$
    """
    return lambda row: model(row, is_concept=row < 0).logits


def layers_dropped(  # noqa: PLR0917
    params: TrainParams, config: ConceptConfig, corpus: Corpus, x: Tensor, sizes: int,
    on_progress: OnProgress,
) -> str:  # fmt: skip
    """The bar for v2: the base with middle layers dropped until it costs as much, trained alike.

    Whatever v2 gains over it comes of concepts.
    """
    base, _ = load(params.model, params.dtype, str(x.device))
    split = equal_split((config.shallow, config.middle, config.deep), config.rho)
    bar = replace(config, shallow=split[0], middle=split[1], deep=split[2])
    model = build(base, bar, params.seed)
    with precision(base):
        fit_text(params, model, {"dropped": asdict(bar)}, corpus, on_progress, concepts=False)
        after = bits(without_concepts(model), x, sizes)
    dropped = f"{bar.middle} of {sum(split)} layers dropped in the place of concepts"
    return f"; with {dropped}, trained alike, {after:.3f}"


def monitored(stats: Stats) -> str:
    """The monitors that were measured, a line, and what `diagnose` makes of them, a line each."""
    numbers = {name: value for name, value in vars(stats).items() if isinstance(value, float)}
    figures = [f"{name} {x:.3g}" for name, x in numbers.items() if math.isfinite(x)]
    actions = [f"{action.symptom}. Try: {action.action}." for action in diagnose(stats)]
    return "\n".join([f"monitors: {', '.join(figures)}", *actions, ""])


@dataclass
class Continuation:
    """Windows of a text, cut in two: u to plan from, and y that follows it."""

    corpus: Corpus
    length: int
    device: torch.device

    def sample(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Windows to learn from: u (n, length / 2), nothing, y (n, length / 2).

        Equation: $u = x_{1..L/2}, \quad y = x_{L/2 + 1..L}$
        """
        step = int(torch.randint(1 << 30, ()))
        return self._cut(self.corpus.batch(step, n, self.length))

    def held(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""The same of held-out text: (n, length / 2), nothing, (n, length / 2).

        Equation: $(u, y) = \mathrm{cut}(x)$
        """
        return self._cut(self.corpus.judged(n, self.length))

    def _cut(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, y = x.to(self.device).tensor_split([self.length // 2], 1)
        return u, u[:, :0], y


def plan(
    params: TrainParams, base: Any, tokenizer: Any, corpus: Corpus, on_progress: OnProgress
) -> Learnt:
    """v3: train and judge; the three models, what they are, the figures."""
    config = base.config
    words, d = config.vocab_size, config.hidden_size
    chosen = params.model_dump(include={"types", "slots", "sequence", "mtp"})
    shape = PlanShape(codes=params.n_concepts, u_vocab=words, y_vocab=words, d=d, **chosen)
    same = params.model_dump(include={"lr", "seed", "beams"})
    same |= {"batch": params.rows, "held": params.judged, "every": params.choose_every}
    settings = EMSettings(samples=64 * params.rows, **same)
    warm_up = params.steps * 3 // 4
    em_steps = max(1, params.steps - warm_up)
    curriculum = Curriculum(warm_up, params.through, em_steps, grow=params.grow)
    task = Continuation(corpus, params.length, base.device)
    u, _, y = task.held(params.judged)
    sizes, middle = size(tokenizer, y), u.shape[1]
    with torch.no_grad():
        x = torch.cat([u, y], 1)
        logits = base(x, use_cache=False).logits
        before = float(token_nll(logits, x)[:, middle - 1 :].sum()) / len(y)
    # A LoRA for each role on one frozen base; what is new is in single precision.
    em = HardEM(task, shape, settings, curriculum, adapters(base, seed=settings.seed))
    about = {"shape": asdict(shape), "curriculum": asdict(curriculum)}
    saved = checkpoint(params, about, corpus)
    with precision(base):
        steps = curriculum.total
        trace = em.train(lambda step, total: on_progress(step, total, "v3"), steps, saved)
        stats = trace[steps] if trace else em.observe(1.0)  # the training had ended before
        with torch.no_grad():
            z = em.planner.sample(u, 0.0)
            costs = {
                "given u, the base before": before,
                "given its own plan": em.nll(z),
                "plan and text together": em.price(z),
                "given another text's plan": em.nll(z.roll(1, 0)),
                "given none": em.free_nll(),
            }
    per_byte = len(y) / sizes / math.log(2)
    lines = [f"{what}: {nats * per_byte:.3f}" for what, nats in costs.items()]
    report = "\n".join(["held-out bits a byte of the second halves:", *lines, monitored(stats)])
    return em.everything, {"shape": asdict(shape)}, report


def write(params: GenerateParams, device: str, on_progress: OnProgress) -> str:
    """Go on from a prompt with what `train` wrote: the text, and the concepts it came with.

    Raises:
        InputError: for a model that does not fit, or a prompt without tokens.
        CheckpointError: for weights that are none, or of another base.
    """
    state = read_state(Path(params.out) / WEIGHTS)
    ways = {"v1": tuned, "v2": compressed, "v3": planned}
    if state.get("about", {}).get("version") not in ways:
        raise CheckpointError(f"{WEIGHTS} in {params.out} is not what train wrote")
    base, tokenizer = load(params.model, params.dtype, device)
    prompt = torch.tensor([tokenizer(params.prompt)["input_ids"]], dtype=torch.long, device=device)
    check_tokens(prompt, base.config)
    check_tokens(prompt.new_zeros(1, prompt.shape[1] + params.new), base.config)
    with precision(base), torch.no_grad():
        text = ways[state["about"]["version"]](params, base, tokenizer, prompt, state)
    on_progress(1, 1, "written")
    return text


def until_end(new: Tensor, tokenizer: Any) -> Tensor:
    r"""The written tokens (n,) before the first end of text, if there is one: (m,).

    Equation: $m = \min \{t : y_t = \mathrm{EOS}\} \cup \{n\}$
    """
    ends = [] if tokenizer.eos_token_id is None else (new == tokenizer.eos_token_id).nonzero()
    return new[: int(ends[0])] if len(ends) else new


def tuned(
    params: GenerateParams, base: Any, tokenizer: Any, prompt: Tensor, state: dict[str, Any]
) -> str:
    """v1: the text alone."""
    model = add_lora(base, ConceptConfig(1, 0, 1))
    load_weights(model, state["weights"], WEIGHTS)
    model.to(prompt.device).eval()
    source, x = torch.Generator(prompt.device).manual_seed(params.seed), prompt
    for _ in range(params.new):
        logits = model(input_ids=x, use_cache=False).logits[:, -1]
        x = torch.cat([x, draw(logits, params.temperature, source)[:, None]], 1)
    new = until_end(x[0, prompt.shape[1] :], tokenizer)
    text: str = tokenizer.decode(torch.cat([prompt[0], new]))
    return text


def compressed(
    params: GenerateParams, base: Any, tokenizer: Any, prompt: Tensor, state: dict[str, Any]
) -> str:
    """v2: the text, then the same with its concepts marked."""
    model = build(base, ConceptConfig(**state["about"]["config"]))
    load_weights(model, state["weights"], WEIGHTS)
    model.to(prompt.device).eval()
    source = torch.Generator(prompt.device).manual_seed(params.seed)
    new = generate(model, prompt, params.new, temperature=params.temperature, generator=source)
    x = torch.cat([prompt[0], until_end(new[0], tokenizer)])
    read = in_words(x, marks(model, x), tokenizer.decode)
    return f"{tokenizer.decode(x)}\n\nConcepts [code: nearest tokens]:\n{read}"


def planned(
    params: GenerateParams, base: Any, tokenizer: Any, prompt: Tensor, state: dict[str, Any]
) -> str:
    """v3: the text that was written from the plan, then the plan."""
    shape = PlanShape(**state["about"]["shape"])
    parts = models(shape, 0, adapters(base))
    load_weights(nn.ModuleList(parts).to(prompt.device).eval(), state["weights"], WEIGHTS)
    planner, executor, _ = parts
    source = torch.Generator(prompt.device).manual_seed(params.seed)
    z = planner.sample(prompt, params.temperature, source)
    text = executor.write(z, params.new, params.temperature, source)[0]
    lines = []
    for k, row in enumerate(z[0].tolist()):
        codes = row[: row.index(shape.eos)]
        e = executor.concepts.weight[[k * shape.codes + code for code in codes]]
        near = nearest(e, base.get_input_embeddings().weight).tolist()
        shown = (named(c, t, tokenizer.decode) for c, t in zip(codes, near, strict=True))
        lines.append(f"type {k + 1}: {' '.join(shown)}")
    spelt = tokenizer.decode(until_end(text, tokenizer))
    return "\n".join([params.prompt + spelt, "", "Plan [code: nearest tokens]:", *lines]) + "\n"
