"""The table of checks: what makes v2's shortcut the notes' loop, and keeps the base the base.

Every function takes a device and yields measured values with their bounds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..kit.compare import difference, largest
from ..kit.noise import gumbel
from ..kit.seeds import generator, seeded
from ..spec import Case
from . import masks
from .base import load_base, tiny_config, widen_norms
from .boundaries import RULES
from .config import ConceptConfig
from .decode import prefill, walk
from .model import ConceptLM, token_nll
from .reference import sequential_logits

T = 24
FAMILIES = ("qwen2", "qwen3")
POSITIONS = ("absolute", "compact")
READOUTS = ("seed", "token")
BOUNDS = ((0, 0), (5, 7))  # run cap and shallow window: without, and with both
RAGGED, DECODED = (13, 9, 1), 11  # lengths of prompts, tokens behind each


def example(
    device: str, family: str = "qwen3", *, exact: bool = True, seed: int = 0, **changes: Any
) -> ConceptLM:
    """A tiny model whose adapters are not zero, in fp64 with exact norms by default."""
    values: dict[str, Any] = {"n_concepts": 32, "rho": 0.3} | changes
    base = load_base(tiny_config(family), dtype=torch.float64 if exact else torch.float32)
    model = ConceptLM(base, ConceptConfig(2, 2, 2, **values), seed=seed).to(device)
    if exact:
        widen_norms(model)
        model.double()
    source = generator(seed)
    for name, p in model.named_parameters():
        if "lora_B" in name or name in ("gate", "boundary.query.weight", "boundary.key.weight"):
            p.data += torch.randn(p.shape, generator=source).to(p) * 0.05
    return model.eval()


def examples(device: str, family: str = "qwen3", **options: Any) -> Iterator[tuple[str, ConceptLM]]:
    """A tiny model under both positions and both readouts, with a label that names them."""
    model = example(device, family, **options)
    for positions, readout in product(POSITIONS, READOUTS):
        # Neither shapes a parameter: building the model again would only take time.
        changes: Any = {"positions": positions, "readout": readout}
        model.config = replace(model.config, **changes)
        yield f"{positions} {readout}", model


def tokens(device: str, rows: int = 2, n: int = T, seed: int = 1) -> Tensor:
    """Random token ids of the tiny base: (rows, n)."""
    return torch.randint(0, 256, (rows, n), generator=generator(seed)).to(device)


def noise_like(model: ConceptLM, x: Tensor) -> Tensor:
    """Gumbel noise for a batch, the same each time."""
    with seeded(2):
        like = torch.empty(0, dtype=next(model.head.parameters()).dtype)
        return gumbel(like, (*x.shape, model.config.n_concepts + 1)).to(x.device)


def oracle(device: str) -> Iterator[Case]:
    """The equations, step by step == the packed pass, fp64 logits, with noise and without."""
    for family, (cap, window), rho in product(FAMILIES, BOUNDS, (0.01, 0.3, 0.96)):
        if (cap and rho < 1 / (cap + 1)) or (family == "qwen2" and rho != 0.3):
            continue
        options: dict[str, Any] = {"run_cap": cap, "shallow_window": window}
        x = tokens(device, n=12)  # past the cap and the window; the loop costs its square
        for label, model in examples(device, family, rho=rho, residual=bool(cap), **options):
            model.settle([x])
            noise = noise_like(model, x)
            where = f"{family} {label} cap {cap} window {window} rho {rho}"
            with torch.no_grad():
                for how, drawn in (("training", noise), ("evaluation", None)):
                    wanted = sequential_logits(model, x, drawn)
                    error = difference(model(x, noise=drawn).logits, wanted)
                    yield Case(error, 1e-12, label=f"{where}, {how}")


def gradients(device: str) -> Iterator[Case]:
    """The equations, step by step == the packed pass, gradients of every trainable tensor."""
    for family, positions in product(FAMILIES, POSITIONS):
        for exact, bound in ((True, 1e-12), (False, 1e-5)):
            model = example(device, family, exact=exact, positions=positions).double()
            x = tokens(device, rows=1, n=14)
            noise = noise_like(model, x)
            found = []
            for logits in (model(x, noise=noise).logits, sequential_logits(model, x, noise)):
                model.zero_grad()
                torch.autograd.backward(token_nll(logits, x).mean())
                parts = model.trainable().values()
                found.append([torch.zeros_like(p) if p.grad is None else p.grad for p in parts])
            apart = largest([difference(a, b) for a, b in zip(*found, strict=True)])
            norms = "norms in fp64" if exact else "Qwen's own norms"
            yield Case(apart, bound, label=f"{family} {positions}, {norms}")


def decoding(device: str) -> Iterator[Case]:
    """Packed prefill then cached steps == full forward, rows ragged, in step and waiting."""
    for rule in ("null", *RULES):
        model = example(device, boundary=rule)
        x = tokens(device, rows=3)
        with torch.no_grad():
            for _ in range(8):
                model.observe(model(x, noise=noise_like(model, x)))
        for patience in (0, 2):
            error = decode_error(model, x, torch.tensor(RAGGED), patience=patience)
            yield Case(error, 1e-12, label=f"boundary {rule}, rows wait {patience} steps")
    precisions = (("qwen2", True), ("qwen3", True), ("qwen3", False))
    for (family, exact), (cap, window) in product(precisions, BOUNDS):
        bound = 1e-12 if exact else 1e-5
        options: dict[str, Any] = {"exact": exact, "run_cap": cap, "shallow_window": window}
        for label, model in examples(device, family, **options):
            x = tokens(device, rows=3)
            model.settle([x])
            where = f"{family} {label} cap {cap} window {window} fp{64 if exact else 32}"
            for kind, lengths in (("ragged", RAGGED), ("in step", (9, 9, 9))):
                error = decode_error(model, x, torch.tensor(lengths))
                yield Case(error, bound, label=f"{where}, {kind}")
    model = example(device, boundary="words", codes="fsq", n_concepts=64, residual=True)
    error = decode_error(model, tokens(device, rows=3), torch.tensor(RAGGED))
    yield Case(error, 1e-12, label="word ends, fsq codes, residual")


def decode_error(model: ConceptLM, x: Tensor, lengths: Tensor, patience: int = 0) -> float:
    """Largest difference of logits between decoding and one packed pass; NaN if one is none."""
    with torch.no_grad():
        places = (lengths[:, None] + torch.arange(-1, DECODED)).to(x.device)  # (B, 1 + DECODED)
        wanted = model(x).logits[torch.arange(len(x))[:, None], places]
        found = decoded(model, x, x.gather(1, places[:, 1:]), lengths, patience)
    return difference(found, wanted)


@torch.no_grad()
def decoded(
    model: ConceptLM, prompt: Tensor, more: Tensor, lengths: Tensor, patience: int
) -> Tensor:
    """Logits behind prompts and each of n given tokens, rows waiting so long: (B, 1 + n, V)."""
    n = more.shape[1]
    first, state = prefill(model, prompt, lengths, room=4)
    found = first[:, None].repeat(1, 1 + n, 1)
    for done, logits, ready in walk(model, state, more, n, patience):
        rows = ready.nonzero()[:, 0]
        found[rows, done[rows] + 1] = logits[rows]
    return found


def leak(device: str) -> Iterator[Case]:
    """No logit depends on a later token: gradients to later embeddings are zero."""
    for label, model in examples(device):
        x = tokens(device)
        noise = noise_like(model, x)
        embedded = model.qwen.embed_tokens(x).detach().requires_grad_()
        handle = model.qwen.embed_tokens.register_forward_hook(lambda *_, e=embedded: e)
        output = model(x, noise=noise)
        handle.remove()
        later, own = 0.0, 0.0
        for t in range(0, T - 1, 7):
            (grad,) = torch.autograd.grad(output.logits[:, t].sum(), embedded, retain_graph=True)
            later = max(later, float(grad[:, t + 1 :].abs().max()))
            own += float(grad[:, : t + 1].abs().max())
        yield Case(later, 0.0, label=f"{label}: gradient to later tokens")
        yield Case(own > 0, True, label=f"{label}: gradient to earlier tokens")
        changed = x.clone()
        changed[:, T // 2 :] = (changed[:, T // 2 :] + 7) % 256
        with torch.no_grad():
            other = model(changed, noise=noise)
        past = slice(0, T // 2)
        same = bool((other.routing.is_concept[:, past] == output.routing.is_concept[:, past]).all())
        yield Case(same, True, label=f"{label}: earlier boundaries stay")


def dropped_layers(device: str) -> Iterator[Case]:
    """All NULL == the base without its middle layers; no middle layers == the base's forward."""
    splits = {"all NULL": (2, 2, 2), "no middle layers": (3, 0, 3)}
    for family, (label, split) in product(FAMILIES, splits.items()):
        ours, theirs = (load_base(tiny_config(family)).to(device) for _ in range(2))
        model = ConceptLM(ours, ConceptConfig(*split, n_concepts=8)).to(device).eval()
        del theirs.model.layers[split[0] : -split[2]]
        theirs.config.num_hidden_layers = len(theirs.model.layers)
        x = tokens(device)
        with torch.no_grad():
            found = model(x, is_concept=torch.zeros_like(x, dtype=torch.bool)).logits
            error = difference(found, hf_logits(theirs, x))
        yield Case(error, 0.0, label=f"{family}: {label}")


def hf_logits(base: Any, x: Tensor) -> Tensor:
    """Logits of transformers' own forward, under the same explicit boolean causal mask."""
    n = x.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()[None, None]
    mapping = {"full_attention": mask.expand(len(x), 1, n, n)}
    logits: Tensor = base(x, attention_mask=mapping, use_cache=False).logits
    return logits


def flex(device: str) -> Iterator[Case]:
    """FlexAttention's block mask == the boolean mask under SDPA."""
    from torch.nn.attention.flex_attention import flex_attention  # noqa: PLC0415 - slow to import

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 128, 16, generator=generator).to(device) for _ in range(3))
    for rho in (0.0, 0.1, 0.5, 1.0):
        is_concept = torch.rand(2, 128, generator=generator).to(device) < rho
        allow = masks.deep_allow(is_concept)[:, None]
        sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        ours = flex_attention(q, k, v, block_mask=masks.block_mask(is_concept))
        assert isinstance(ours, Tensor)
        yield Case(difference(sdpa, ours), 1e-5, label=f"rho {rho}")


def trainables(device: str) -> Iterator[Case]:
    """Trainable == LoRA + head + embedding; without the adapter the base is untouched."""
    for family in FAMILIES:
        x = tokens(device)
        before = hf_logits(load_base(tiny_config(family)).to(device), x)
        model = example(device, family, exact=False)
        yield Case(set(model.trainable()) == learnt(), True, label=f"{family}: names")
        loss = model.loss(model(x, noise="draw"), x)
        torch.autograd.backward(loss)
        torch.optim.SGD(model.trainable().values(), lr=0.1).step()
        with torch.no_grad(), model.peft.disable_adapter():
            after = hf_logits(model.peft.base_model.model, x)
        yield Case(difference(before, after), 0.0, label=f"{family}: adapter disabled after a step")


def learnt() -> set[str]:
    """Names of what v2 may train: LoRA's two maps at each linear map, head and embedding."""
    layers = load_base(tiny_config()).model.layers.named_modules()
    maps = [name for name, part in layers if isinstance(part, nn.Linear)]
    prefix = "peft.base_model.model.model.layers"
    lora = {f"{prefix}.{name}.lora_{half}.default.weight" for name, half in product(maps, "AB")}
    return lora | {"head.proj.weight", "head.proj.bias", "head.embedding.weight"}


def lora_dropout(device: str) -> Iterator[Case]:
    """LoRA's dropout takes place in training, at the rate that is set, and nowhere else."""
    x = tokens(device)
    for rate in (0.0, 0.9):
        model = example(device, lora_dropout=rate)
        none = torch.zeros_like(x, dtype=torch.bool)
        with torch.no_grad(), seeded(3):
            still = model(x, is_concept=none).logits
            moved = difference(model.train()(x, is_concept=none).logits, still)
        yield Case(moved > 1e-6, rate > 0, label=f"dropout {rate}: training differs")
    dropped = model.deep[0].mlp.up_proj.lora_dropout["default"]
    with seeded(4):
        share = float((dropped(torch.ones(10_000)) == 0).float().mean())
    yield Case(abs(share - 0.9), 0.02, label="share of a LoRA's inputs that are dropped, of 0.9")


def ragged(device: str) -> Iterator[Case]:
    """A padded batch == its rows alone."""
    for label, model in examples(device, exact=False):
        x = tokens(device, rows=3)
        model.settle([x])
        lengths = torch.tensor([T, 13, 3], device=device)
        with torch.no_grad():
            batch = model(x, lengths=lengths).logits
            apart = [
                difference(batch[b, :n], model(x[b : b + 1, :n]).logits[0])
                for b, n in enumerate(lengths.tolist())
            ]
        yield Case(largest(apart), 1e-5, label=label)


def middle_gradients(device: str) -> Iterator[Case]:
    """With every token NULL, nothing flows into the middle layers, the head or the embedding."""
    model = example(device)
    x = tokens(device)
    none = torch.zeros_like(x, dtype=torch.bool)
    torch.autograd.backward(token_nll(model(x, is_concept=none).logits, x).mean())
    inner = [*nn.ModuleList(model.middle).parameters(), *model.head.parameters()]
    flow = max((float(p.grad.abs().max()) for p in inner if p.grad is not None), default=0.0)
    yield Case(flow, 0.0, label="middle, head and embedding")
    outer = nn.ModuleList([*model.shallow, *model.deep]).parameters()
    learns = any(p.grad is not None and bool(p.grad.any()) for p in outer)
    yield Case(learns, True, label="the rest")
