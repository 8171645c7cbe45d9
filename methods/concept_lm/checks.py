"""The table of checks: what makes v2's shortcut the notes' loop, keeps the base the base, and holds
v3 to its equations; the last rows need something to be learnt first.

Every function takes a device and yields measured values with their bounds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..kit.compare import difference, largest
from ..kit.corpus import stdlib
from ..kit.noise import gumbel
from ..kit.seeds import generator, seeded
from ..kit.threads import one_thread
from ..kit.training import History, Plan, fit
from ..spec import Case
from .base import load_base, tiny_config, widen_norms
from .baselines import shuffled_codes
from .boundaries import RULES
from .config import ConceptConfig
from .core import ConceptOutput, deep_allow
from .decode import prefill, walk
from .head import since
from .model import ConceptLM, block_mask, token_nll
from .reference import executor_nll, planner_log_prob, sequential_logits
from .synthetic import RECALL_VOCAB, PlanTask, recall
from .train import OnText, train
from .v3.em import Curriculum, EMSettings, Falling, HardEM
from .v3.executor import Executor
from .v3.monitors import Action, diagnose
from .v3.planner import Planner, PlanShape
from .v3.role import Role, adapters

T = 24
FAMILIES = ("qwen2", "qwen3")
POSITIONS = ("absolute", "compact")
READOUTS = ("seed", "token")
BOUNDS = ((5, 7), (0, 0))  # run cap and shallow window: with both, and without
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
        if "lora_B" in name or name in ("boundary.query.weight", "boundary.key.weight"):
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
        for label, model in examples(device, family, rho=rho, **options):
            model.settle([x])
            noise = noise_like(model, x)
            where = f"{family} {label} cap {cap} window {window} rho {rho}"
            with torch.no_grad():
                for how, drawn in (("training", noise), ("evaluation", None)):
                    expected = sequential_logits(model, x, drawn)
                    error = difference(model(x, noise=drawn).logits, expected)
                    yield Case(error, 1e-12, label=f"{where}, {how}")


def gradients(device: str) -> Iterator[Case]:
    """The equations, step by step == the packed pass, gradients of every trainable tensor."""
    for family, positions in product(FAMILIES, POSITIONS):
        for exact, bound in ((True, 1e-12), (False, 1e-5)):
            model = example(device, family, exact=exact, positions=positions).double()
            x = tokens(device, rows=1, n=14)
            noise = noise_like(model, x)
            gradients = []
            for logits in (model(x, noise=noise).logits, sequential_logits(model, x, noise)):
                model.zero_grad()
                torch.autograd.backward(token_nll(logits, x).mean())
                parts = model.trainable().values()
                gradients.append([torch.zeros_like(p) if p.grad is None else p.grad for p in parts])
            apart = largest([difference(a, b) for a, b in zip(*gradients, strict=True)])
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
        if not (cap or (family == "qwen3" and exact)):
            continue
        bound = 1e-12 if exact else 1e-5
        options: dict[str, Any] = {"exact": exact, "run_cap": cap, "shallow_window": window}
        for label, model in examples(device, family, **options):
            x = tokens(device, rows=3)
            model.settle([x])
            where = f"{family} {label} cap {cap} window {window} fp{64 if exact else 32}"
            for kind, lengths in (("ragged", RAGGED), ("in step", (9, 9, 9))):
                error = decode_error(model, x, torch.tensor(lengths))
                yield Case(error, bound, label=f"{where}, {kind}")


def decode_error(model: ConceptLM, x: Tensor, lengths: Tensor, patience: int = 0) -> float:
    """Largest difference of logits between decoding and one packed pass; NaN if one is none."""
    with torch.no_grad():
        places = (lengths[:, None] + torch.arange(-1, DECODED)).to(x.device)  # (B, 1 + DECODED)
        expected = model(x).logits[torch.arange(len(x))[:, None], places]
        logits = decoded(model, x, x.gather(1, places[:, 1:]), lengths, patience)
    return difference(logits, expected)


@torch.no_grad()
def decoded(
    model: ConceptLM, prompt: Tensor, more: Tensor, lengths: Tensor, patience: int
) -> Tensor:
    """Logits behind prompts and each of n given tokens, rows waiting so long: (B, 1 + n, V)."""
    n = more.shape[1]
    first, state = prefill(model, prompt, lengths, room=4)
    behind = first[:, None].repeat(1, 1 + n, 1)
    for done, logits, ready in walk(model, state, more, n, patience):
        rows = ready.nonzero()[:, 0]
        behind[rows, done[rows] + 1] = logits[rows]
    return behind


def leak(device: str) -> Iterator[Case]:
    """No logit depends on a later token: gradients to later embeddings are zero."""
    for label, model in examples(device):
        x = tokens(device)
        noise = noise_like(model, x)
        embedded = model.qwen.embed_tokens(x).detach().requires_grad_()
        handle = model.qwen.embed_tokens.register_forward_hook(lambda *_, e=embedded: e)
        output = model(x, noise=noise)
        handle.remove()
        later, earlier = 0.0, 0.0
        for t in range(0, T - 1, 7):
            (grad,) = torch.autograd.grad(output.logits[:, t].sum(), embedded, retain_graph=True)
            later = max(later, float(grad[:, t + 1 :].abs().max()))
            earlier += float(grad[:, : t + 1].abs().max())
        yield Case(later, 0.0, label=f"{label}: gradient to later tokens")
        yield Case(earlier > 0, True, label=f"{label}: gradient to earlier tokens")
        changed = x.clone()
        changed[:, T // 2 :] = (changed[:, T // 2 :] + 7) % 256
        with torch.no_grad():
            other = model(changed, noise=noise)
        past = slice(0, T // 2)
        same = bool((other.routing.is_concept[:, past] == output.routing.is_concept[:, past]).all())
        yield Case(same, True, label=f"{label}: earlier boundaries stay")


def dropped_layers(device: str) -> Iterator[Case]:
    """All NULL == the base without its middle layers; no middle layers == the base's forward.

    To the bit on a CPU; on a GPU PyTorch chooses kernels by shapes and strides.
    """
    bound = 0.0 if device == "cpu" else 1e-6
    splits = {"all NULL": (2, 2, 2), "no middle layers": (3, 0, 3)}
    for family, (label, split) in product(FAMILIES, splits.items()):
        ours, theirs = (load_base(tiny_config(family)).to(device) for _ in range(2))
        model = ConceptLM(ours, ConceptConfig(*split, n_concepts=8)).to(device).eval()
        del theirs.model.layers[split[0] : -split[2]]
        theirs.config.num_hidden_layers = len(theirs.model.layers)
        x = tokens(device)
        with torch.no_grad():
            logits = model(x, is_concept=torch.zeros_like(x, dtype=torch.bool)).logits
            error = difference(logits, hf_logits(theirs, x))
        yield Case(error, bound, label=f"{family}: {label}")


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
        allow = deep_allow(is_concept)[:, None]
        sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        ours = flex_attention(q, k, v, block_mask=block_mask(is_concept))
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
    """Gradients of middle layers, head and embedding: none where every token is NULL."""
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


SHAPE = PlanShape(types=3, codes=5, slots=3, u_vocab=7, y_vocab=4, d=32)


def typed_plans(device: str) -> Iterator[Case]:
    """Planner and executor == their equations, one type and one example at a time."""
    yield from _against_equations(device, SHAPE, {}, "")
    yield from _against_equations(device, replace(SHAPE, sequence=True), {}, " in sequence")
    base = load_base(tiny_config(vocab=7, d=32, layers=2, heads=2, kv_heads=1), dtype=torch.float64)
    widen_norms(base)
    on = adapters(base.to(device), rank=4)
    source = generator(5)
    for role in (on["planner"], on["executor"]):  # so that the adapters differ, and matter
        for name, p in role.named_parameters():
            if "lora_B" in name:
                p.data += torch.randn(p.shape, generator=source).to(p) * 0.1
    yield from _against_equations(device, replace(SHAPE, y_vocab=7), on, " on a shared base")


def _against_equations(
    device: str, shape: PlanShape, on: dict[str, Role], where: str
) -> Iterator[Case]:
    planner = Planner(shape, 0, on.get("planner")).to(device).double()
    executor = Executor(shape, 0, on.get("executor")).to(device).double()
    for model in (planner, executor):
        widen_norms(model)
    source = generator(0)
    u = torch.randint(7, (4, 5), generator=source).to(device)
    z = torch.randint(6, (4, 3, 4), generator=source).to(device)
    y = torch.randint(4, (4, 8), generator=source).to(device)
    z = torch.where((z == SHAPE.eos).long().cumsum(-1) > 0, SHAPE.eos, z)
    z[:, :, -1] = SHAPE.eos
    with torch.no_grad():
        executor.kind.weight.mul_(3)
        alone = [planner_log_prob(planner, *example) for example in zip(u, z, strict=True)]
        error = difference(planner.log_prob(u, z), torch.stack(alone))
        yield Case(error, 1e-12, label=f"planner{where}")
        alone = [executor_nll(executor, *example) for example in zip(z, y, strict=True)]
        error = difference(executor.nll(z, y), torch.stack(alone))
        yield Case(error, 1e-12, label=f"executor{where}")
    e = executor.embed(z[:, :, :-1]).requires_grad_()
    used = z[:, :, :-1] != SHAPE.eos
    nll = executor.token_nll(e, used, y).sum()
    theirs = [planner.start.weight, *planner.backbone.parameters()]
    to_e, *to_planner = torch.autograd.grad(nll, [e, *theirs], allow_unused=True)
    apart = all(grad is None for grad in to_planner)
    yield Case(apart, True, label=f"no path from the planner to the executor{where}")
    yield Case(float(to_e[~used].abs().max()), 0.0, label=f"gradient to slots after EOS{where}")


def small(plan_drop: float = 0.0, **changes: Any) -> HardEM:
    """v3 on 2-bit codes, untrained, with the given shares of what training hides."""
    task = PlanTask(types=2, bits=2)
    settings = EMSettings(samples=32, batch=16, plan_drop=plan_drop)
    plan = replace(Curriculum(warm_up=4, steps=4, drop=0.0, warm_up_drop=0.0), **changes)
    return HardEM(task, task.shape(d=32), settings, plan)


def flow(em: HardEM, loss: Tensor, part: nn.Module) -> float:
    """The largest gradient that a loss sends to a part of v3."""
    em.everything.zero_grad()
    torch.autograd.backward(loss)
    grads = [p.grad for p in part.parameters() if p.grad is not None]
    return largest([float(grad.abs().max()) for grad in grads]) if grads else 0.0


def objectives(device: str) -> Iterator[Case]:
    """The losses hide what they should, and the E-step weighs log p(z | u) by beta."""
    with seeded(0):
        for when, drop in product(("em_loss", "warm_up_loss"), (1.0, 0.0)):
            em = small(drop=drop, warm_up_drop=drop)
            reached = flow(em, getattr(em, when)(0), em.executor.tokens)
            yield Case(reached == 0, drop == 1, label=f"{when}: text all dropped {drop == 1}")
            em = small(plan_drop=drop)
            reached = flow(em, getattr(em, when)(0), em.executor.concepts)
            yield Case(reached == 0, drop == 1, label=f"{when}: plans dropped {drop}")
    em = small()
    with torch.no_grad():
        for p in em.planner.heads.parameters():
            p.mul_(20)  # so that what the planner thinks of a plan matters
        for beta in (0.0, 0.5, 4.0):
            chosen = em.search.choose(em.u, em.y, em.z, beta, sweep=True)
            nll = [
                executor_nll(em.executor, *example) for example in zip(chosen.z, em.y, strict=True)
            ]
            plans = zip(em.u, chosen.z, strict=True)
            prior = [planner_log_prob(em.planner, *example) for example in plans]
            expected = beta * torch.stack(prior) - torch.stack(nll).sum(-1)
            error = difference(chosen.score, expected)
            yield Case(error, 1e-4, label=f"S of the choice, beta {beta}")


def learn_recall(device: str, window: int, steps: int = 250) -> float:
    """Train on `recall`; nats that shuffling the concepts costs on the recalled symbol."""
    base = load_base(tiny_config(vocab=RECALL_VOCAB, d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
    config = ConceptConfig(1, 1, 1, n_concepts=64, boundary="fixed", shallow_window=window)
    model = ConceptLM(base, config).to(device)
    model.fold()  # the base is random: all of it must learn, and adapters would add nothing
    model.requires_grad_(True)

    def recalled(rows: int, **forced: Any) -> Tensor:
        x = recall(rows).to(device)
        return token_nll(model(x, **forced).logits, x)[:, -1].mean()

    fit(
        lambda i: recalled(64, noise="draw"),
        torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True),
        Falling(steps, 7e-3, clip=1e3),
        History(),
        module=model,
    )
    costs = []
    for codes in (None, shuffled_codes):
        with torch.no_grad(), seeded(0):
            costs.append(float(recalled(256, codes=codes)))
    return costs[1] - costs[0]


@one_thread
def bottleneck(device: str) -> Iterator[Case]:
    """Shuffling concepts costs much where only they carry, and nothing where attention goes by."""
    yield Case(learn_recall(device, window=4), 5.0, ">=", "window of 4 tokens")
    # Half the steps: with the window concepts carry 3.1 to 6.6 nats by then, over four seeds.
    yield Case(learn_recall(device, 0, steps=125), 0.05, "<=", "global shallow attention")


@one_thread
def null_rate(device: str) -> Iterator[Case]:
    """The share of concepts stays at its target in training and on unseen text; runs end at R."""
    rates: list[float] = []

    def note(_model: Any, _given: Any, output: ConceptOutput) -> None:
        rates.append(float(output.routing.chosen.float().mean()))

    for rho, cap in ((0.25, 0), (0.4, 4)):
        rates.clear()
        base = load_base(tiny_config(d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
        config = ConceptConfig(1, 1, 1, n_concepts=64, rho=rho, run_cap=cap)
        learner = OnText(ConceptLM(base, config).to(device), stdlib(), 8, 64, 0)
        learner.model.register_forward_hook(note)
        train(learner, Plan(80, 3e-3))
        trained = sum(rates[40:]) / len(rates[40:])
        with torch.no_grad():
            routing = learner.run(learner.corpus.judged(64, 64).to(device)).routing
        label = f"rho {rho}, cap {cap}"
        yield Case(abs(trained - rho), 0.03, label=f"{label}: training")
        seen = float(routing.chosen.float().mean())
        yield Case(abs(seen - rho), 0.03, label=f"{label}: evaluation")
        if cap:
            longest = int(since(routing.is_concept).max())
            yield Case(longest, cap, "<=", f"{label}: longest run of NULLs")


def small_em() -> HardEM:
    """A task of 2-bit codes that is learnt in seconds."""
    task = PlanTask(types=2, bits=2)
    settings = EMSettings(samples=256, batch=64)
    return HardEM(task, task.shape(d=32), settings, Curriculum(warm_up=150, steps=60))


@one_thread
def monitors(device: str) -> Iterator[Case]:
    """A healthy run leads to no action; a collapse injected into it is flagged."""
    em = small_em()
    (stats,) = em.train(watch=210).values()
    yield Case(len(diagnose(stats)), 0, "<=", "actions for a healthy run")
    with torch.no_grad():  # every concept becomes the same one
        table = em.executor.concepts.weight
        table[:] = table.mean(0)
    flagged = {action.monitor for action in diagnose(em.observe(1.0))}
    yield Case("shuffled" in flagged, True, label="all concepts made equal")
    with torch.no_grad():  # planner and recogniser are sure of code 0, whatever they read
        for name, p in em.everything.named_parameters():
            if ".heads." in name:
                p.zero_()
                p[0] += 20.0 if name.endswith("bias") else 0.0
    actions: list[Action] = diagnose(em.observe(1.0))
    yield Case("entropy" in {a.monitor for a in actions}, True, label="the planner writes one plan")
