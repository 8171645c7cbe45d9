"""v2 and v3 from their equations alone, one step at a time: what everything else is held against.

Nothing here calls the code it judges, nor transformers': maps, norms, rotations and softmax are
written out, and weights are read by name. It costs T deep passes, as the notes' loop does.
"""

from typing import Any

import torch
from torch import Tensor

from .config import ConceptConfig


def linear(part: Any, x: Tensor, scale: float) -> Tensor:
    r"""A linear map with LoRA where it has one: (n, in) -> (n, out); scale is alpha / r.

    Equation: $y = W x + b + \frac{\alpha}{r} B A x$
    """
    whole = getattr(part, "base_layer", part)
    y: Tensor = x @ whole.weight.T
    if whole.bias is not None:
        y = y + whole.bias
    for role in getattr(part, "active_adapters", []) if hasattr(part, "lora_A") else []:
        y = y + scale * (x @ part.lora_A[role].weight.T) @ part.lora_B[role].weight.T
    return y


def normalised(x: Tensor, weight: Tensor | float, eps: float) -> Tensor:
    r"""RMSNorm: (..., d) -> (..., d).

    Equation: $y_i = w_i x_i / \sqrt{\frac{1}{d} \sum_j x_j^2 + \epsilon}$
    """
    return weight * x / ((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()


def rotated(x: Tensor, places: Tensor, theta: float) -> Tensor:
    r"""RoPE of heads (n, H, D) at `places` (n,), its angles in single precision as Qwen has them.

    Equation: $(x_j, x_{j + D/2}) \leftarrow R(p \, \theta^{-2j/D}) (x_j, x_{j + D/2})$
    """
    half = x.shape[-1] // 2
    frequency = 1.0 / theta ** (torch.arange(0, 2 * half, 2, dtype=torch.float32) / (2 * half))
    angle = places[:, None].float() * frequency.to(places.device)
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def decoder(
    qwen: Any, layers: Any, x: Tensor, places: Tensor, *, window: int = 0, scale: float = 0.0
) -> Tensor:
    r"""Run some layers of a Qwen over one row: (n, d), (n,) -> (n, d).

    Entry i looks at j <= i, at `window` of them where that is set.

    Equation: $a = x_l + W_o \mathrm{softmax}(q k^\top / \sqrt{D}) v, \quad
    x_{l + 1} = a + W_{down} (\mathrm{silu}(W_{gate} \hat a) \odot W_{up} \hat a)$
    """
    config, n = qwen.config, len(x)
    eps, theta = config.rms_norm_eps, config.rope_parameters["rope_theta"]
    group = config.num_attention_heads // config.num_key_value_heads
    back = torch.arange(n, device=x.device)[:, None] - torch.arange(n, device=x.device)
    hidden = (back < 0) | ((back >= window) if window else False)
    for layer in layers:
        attention, mlp = layer.self_attn, layer.mlp
        seen = normalised(x, layer.input_layernorm.weight, eps)
        q, k, v = (
            linear(part, seen, scale).view(n, -1, attention.head_dim)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):
            q, k = (
                normalised(q, attention.q_norm.weight, eps),
                normalised(k, attention.k_norm.weight, eps),
            )
        q, k = rotated(q, places, theta), rotated(k, places, theta).repeat_interleave(group, 1)
        score = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
        share = score.masked_fill(hidden, -torch.inf).softmax(-1)
        mixed = torch.einsum("hij,jhd->ihd", share, v.repeat_interleave(group, 1))
        a = x + linear(attention.o_proj, mixed.reshape(n, -1), scale)
        seen = normalised(a, layer.post_attention_layernorm.weight, eps)
        gate, up = linear(mlp.gate_proj, seen, scale), linear(mlp.up_proj, seen, scale)
        x = a + linear(mlp.down_proj, gate * torch.sigmoid(gate) * up, scale)
    return x


def concepts(
    head: Any, config: ConceptConfig, h: Tensor, noise: Tensor | None
) -> tuple[list[int], Tensor]:
    r"""Places of the concepts in one row, and their embeddings: (T, d) -> places, (C, d).

    With noise the largest of K + 1 decides, without it the threshold on NULL's lead; after R NULLs
    a concept is forced.

    Equation: $e_t = E_{id} + (p E - \mathrm{sg}(p E)), \quad
    \mathrm{id} = \arg\max_k (l_{tk} + g_{tk})$
    """
    logits = normalised(h, 1.0, torch.finfo(h.dtype).eps) @ head.proj.weight.T + head.proj.bias
    K = config.n_concepts
    noisy = torch.cat([logits[:, :K], logits[:, K:] + head.control.null_bias], 1)
    noisy = noisy if noise is None else noisy + noise
    places, embedded, run = [], [], 0
    for t, logit in enumerate(noisy):
        codes, nothing = logit[:K], logit[K]
        if noise is None:
            fires = bool(nothing - codes.logsumexp(0) < head.control.threshold)
        else:
            fires = bool(codes.max() > nothing)
        if not fires and not (config.run_cap and run == config.run_cap):
            run += 1
            continue
        run = 0
        places.append(t)
        soft = (logit / config.temperature).softmax(0)[:K] @ head.embedding.weight
        embedded.append(head.embedding.weight[int(codes.argmax())] + (soft - soft.detach()))
    return places, torch.stack(embedded) if embedded else h[:0]


def sequential_logits(model: Any, x: Tensor, noise: Tensor | None = None) -> Tensor:
    r"""Logits of every next token, one step at a time: (B, T) -> (B, T, V).

    n_t concepts stand up to t, the last of them at tau(t). With the token readout h_t is appended
    where t = tau(t). `noise` is (B, T, K + 1), or None for evaluation. Boundary rules other than
    NULL are not here.

    Equation: $\mathrm{logits}_t = W \, \mathrm{norm}(\mathrm{Deep}([m_1, \dots, m_{n_t},
    h_{\tau(t) + 1}, \dots, h_t])_{-1})$
    """
    rows = [_row(model, row, None if noise is None else noise[b]) for b, row in enumerate(x)]
    return torch.stack(rows)


def _row(model: Any, x: Tensor, noise: Tensor | None) -> Tensor:
    config, qwen = model.config, model.qwen
    ends = config.shallow, config.shallow + config.middle
    layers, scale = list(qwen.layers), config.lora_alpha / config.lora_rank
    index = torch.arange(len(x), device=x.device)
    embedded, window = qwen.embed_tokens.weight[x], config.shallow_window
    h = decoder(qwen, layers[: ends[0]], embedded, index, window=window, scale=scale)
    places_of, e = concepts(model.head, config, h, noise)
    compact = config.positions == "compact"
    positions = index[: len(places_of)] if compact else index[places_of]
    m = decoder(qwen, layers[ends[0] : ends[1]], e, positions, scale=scale) if places_of else e
    steps = []
    for t in range(len(x)):
        n = sum(p <= t for p in places_of)
        last = places_of[n - 1] if n else -1
        visible = [*m[:n], *h[last + 1 : t + 1]]
        places = [*places_of[:n], *range(last + 1, t + 1)]
        if last == t and config.readout == "token":
            visible.append(h[t])
            places.append(t)
        positions = index.new_tensor(range(len(places)) if compact else places)
        out = decoder(qwen, layers[ends[1] :], torch.stack(visible), positions, scale=scale)[-1]
        out = normalised(out, qwen.norm.weight, qwen.config.rms_norm_eps)
        steps.append(out @ model.causal_lm.lm_head.weight.T)
    return torch.stack(steps)


def states(backbone: Any, x: Tensor, places: Tensor) -> Tensor:
    r"""All of a backbone of v3 over one row: (n, d), (n,) -> (n, d).

    Equation: $\mathrm{norm}(\mathrm{Decoder}(x))$
    """
    scale = getattr(backbone, "scale", 0.0)  # of a role's LoRA; toy models have none
    out = decoder(backbone, backbone.layers, x, places, scale=scale)
    return normalised(out, backbone.norm.weight, backbone.config.rms_norm_eps)


def executor_nll(executor: Any, z: Tensor, y: Tensor) -> Tensor:
    r"""-log p(y | z) a token of one example, v3: z (types, slots + 1), y (L,) -> (L,) nats.

    Only what is there is read: a type's concepts end at its EOS. Positions restart for each type.

    Equation: $[\mathrm{BOS}_0, (\mathrm{SEP}_k + \kappa_k)_1, (E_{k z_{ks}} + \kappa_k)_{s + 1},
    \dots, \mathrm{SEP}_{y, S + 2}, y_{1, S + 3}, \dots]$
    """
    shape = executor.shape
    x, places = [executor.bos], [0]
    for k in range(shape.types):
        x.append(executor.separator.weight[k] + executor.kind.weight[k])
        places.append(1)
        for s, code in enumerate(z[k, : shape.slots].tolist()):
            if code == shape.eos:
                break
            x.append(executor.concepts.weight[k * shape.codes + code] + executor.kind.weight[k])
            places.append(s + 2)
    x.append(executor.separator.weight[shape.types])
    asked = len(x) - 1
    x += list(executor.tokens.weight[y[:-1]])
    places += range(shape.slots + 2, shape.slots + 2 + len(y))
    out = states(executor.backbone, torch.stack(x), y.new_tensor(places))[asked:]
    logp = (out @ executor.head.weight.T).log_softmax(-1)
    nll: Tensor = -logp.gather(-1, y[:, None])[:, 0]
    return nll


def planner_log_prob(planner: Any, u: Tensor, z: Tensor) -> Tensor:
    r"""log p(z | u) of one example, each type in a pass of its own: nats, a scalar.

    Types in sequence read the types before them, each up to its EOS, after the prompt. Positions
    go on from the prompt's in each type anew.

    Equation: $\sum_k \sum_{s \le \mathrm{slots}} \log p(z_{ks} \mid u, z_{k, < s} [, z_{< k}])$,
    up to and with the first EOS; the one behind the last slot is no choice
    """
    shape = planner.shape
    total: Tensor = planner.start.weight.new_zeros(())
    before, positions = planner.prompt.weight[u], torch.arange(len(u), device=u.device)
    for k in range(shape.types):
        codes = z[k].tolist()
        codes = codes[: codes.index(shape.eos) + 1]
        read = planner.concepts.weight[[k * (shape.codes + 1) + code for code in codes[:-1]]]
        x = torch.cat([before, planner.start.weight[k : k + 1], read])
        places = torch.cat([positions, len(u) + torch.arange(len(codes), device=u.device)])
        out = states(planner.backbone, x, places)[len(before) :]
        logits = out @ planner.heads[k].weight.T + planner.heads[k].bias
        chosen = codes[: shape.slots]
        total = total + logits.log_softmax(-1)[range(len(chosen)), chosen].sum()
        if shape.sequence:
            before, positions = x, places
    return total
