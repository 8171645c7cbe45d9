"""What vision-token pruning says of itself. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from methods.spec import (
    Benchmark,
    Check,
    Claim,
    Command,
    Comparable,
    Family,
    Method,
    Paper,
    Params,
    TimedParams,
    parameter,
)
from methods.token_pruning import counts

MODEL_HELP = "Folder or hub id of a LLaVA; empty makes one here."
Budgets = Annotated[
    tuple[Annotated[int, Field(ge=2, le=16)], ...], Field(min_length=1, max_length=8)
]


class _Learning(Params):
    base_steps: int = parameter(350, "Steps of the unpruned model.", ge=1, le=100_000)
    steps: int = parameter(120, "Steps of each pruner.", ge=1, le=100_000)
    seeds: int = parameter(3, "Models, each trained and pruned.", ge=1, le=10)
    looks: bool = parameter(True, "Whether the unpruned model is told where to look.")
    judged: int = parameter(512, "Held-out questions.", ge=16, le=65_536)
    folder: str = parameter(
        "", "Folder of checkpoints to resume from; empty: none.", local=True, max_length=300
    )
    model: str = parameter("", MODEL_HELP, model=True, max_length=300)


class TradeoffParams(_Learning):
    """Parameters of `tradeoff`."""

    budgets: Budgets = parameter(
        (2, 4, 8, 12, 16), "Visual tokens a layer, on average.", unit="tokens"
    )
    draws: int = parameter(3, "Draws of random selection a model.", ge=1, le=50)


class TrainingParams(_Learning):
    """Parameters of `training`."""

    watch: int = parameter(20, "Steps averaged to a point of a curve.", ge=1, le=10_000)


class LatencyParams(TimedParams):
    """Parameters of `latency`."""

    size: Literal["tiny", "scaled", "7b"] = parameter("scaled", "Sizes of the model.")
    text: int = parameter(100, "Words beside the image.", unit="tokens", ge=2, le=2048)
    batches: Annotated[
        tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=4)
    ] = parameter((1, 8), "Rows read together.", unit="rows")
    decoded: int = parameter(8, "Tokens decoded to time one.", unit="tokens", ge=1, le=256)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "Type of the weights.")
    model: str = parameter("", MODEL_HELP, model=True, max_length=300)


def _check(name: str, title: str, bound: str, entry: str = "checks") -> Check:
    return Check(name=name, title=title, bound=bound, entry=f"{entry}:{name}")


Source = Annotated[str, Field(min_length=1, max_length=300)]


class _Real(Params):
    model: Source = parameter(..., "Folder or hub id of a LLaVA with its processor.", local=True)
    data: Source = parameter(..., "Folder of the data.", local=True)
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = parameter(
        "auto", "Type of the model's weights; auto is the checkpoint's own."
    )
    rows: int = parameter(4, "Questions read together.", ge=1, le=256)
    skip: bool = parameter(False, "Leave out records that cannot be used.")


class TrainParams(_Real):
    """Parameters of `train`: conversations in LLaVA's format."""

    out: Source = parameter(..., "Folder for training.pt, to resume from, and pruner.pt.",
                            local=True)  # fmt: skip
    config: str = parameter("", "YAML of a configuration; empty: the source's, taught by "
                            "attention.", max_length=300, local=True)  # fmt: skip
    steps: int = parameter(1000, "Steps.", ge=1, le=1_000_000)
    every: int = parameter(50, "Steps between checkpoints.", ge=1, le=100_000)
    seed: int = parameter(0, "Of weights and batches.", ge=0, le=2**31)


class EvaluateParams(_Real):
    """Parameters of `evaluate`: questions in the format of VQA v2."""

    pruner: Source = parameter(..., "The pruner.pt that `train` wrote.", local=True)
    new: int = parameter(10, "Tokens of an answer at most.", unit="tokens", ge=1, le=1024)


METHOD = Method(
    slug="token_pruning",
    title="Vision-token pruning",
    description=(
        "A LLaVA reads fewer visual tokens: a learnt merger halves them before the language model, "
        "heads that know the question drop more inside it. Trained against a discriminator that "
        "tells pruned from unpruned hidden states, on a frozen model."
    ),
    papers=(
        Paper(
            arxiv_id="2310.03744",
            title="Improved Baselines with Visual Instruction Tuning",
            role="ancestor",
        ),
        Paper(
            arxiv_id="1611.01144",
            title="Categorical Reparameterization with Gumbel-Softmax",
            role="ancestor",
        ),
        Paper(
            arxiv_id="2403.06764",
            title="An Image is Worth 1/2 Tokens After Layer 2 (FastV)",
            role="baseline",
        ),
        Paper(arxiv_id="2210.09461", title="Token Merging: Your ViT But Faster", role="baseline"),
        Paper(
            arxiv_id="2412.04467",
            title="VisionZip: Longer is Better but Not Necessary in Vision Language Models",
            role="baseline",
        ),
        Paper(
            arxiv_id="2503.02175",
            title="DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models",
            role="baseline",
        ),
        Paper(
            arxiv_id="2506.10967",
            title="Beyond Attention or Similarity: Maximizing Conditional Diversity for Token "
            "Pruning in MLLMs (CDPruner)",
            role="baseline",
        ),
        Paper(
            arxiv_id="2502.11501",
            title="Token Pruning in Multimodal Large Language Models: Are We Solving the Right "
            "Problem?",
            role="related",
        ),
        Paper(
            arxiv_id="2512.07580",
            title="When Token Pruning is Worse than Random: Understanding Visual Token "
            "Information in VLLMs",
            role="related",
        ),
    ),
    aliases=(
        "token pruning",
        "visual token pruning",
        "vision token pruning",
        "visual token compression",
        "token merging",
    ),
    family=Family(
        what="Dropping, merging, selecting or compressing visual tokens: of images, video, "
        "patches, point clouds, in language models with vision, vision transformers, "
        "diffusion and tracking alike.",
        near="Fewer tokens as one part among others, frame selection, skipping of layers for "
        "visual tokens, caches of keys and values of images.",
        outside="Pruning of weights, channels or experts; tokens of text; selection of tokens as "
        "training data; shorter chains of thought.",
        phrases={
            "(visual|vision|image|video|patch|multimodal|spatial|point) token (prun*|"
            "merg*|compress*|reduc*|drop*|select*|sparsif*|evict*|discard*|condens*|"
            "squeez*|slim*|filter*|redundan*|eliminat*)": 3,
            "token (prun*|merg*|dropping|sparsif*|elision|slimming)": 2,
            "token (compress*|reduc*|select*|evict*|condens*|squeez*|redundan*)": 1,
            "(prun*|merg*|compress*|reduc*|drop*|discard*|sparsif*|fewer|redundan*) ~ "
            "(visual|vision|image|video|patch) token": 2.5,
            "(vision|visual|image|video|vit|diffusion|mllm|lvlm|vlm|vla|multimodal|point "
            "cloud|detection|tracking) & token (prun*|merg*|reduc*|compress*|select*|"
            "sparsif*|drop*|elision)": 1.5,
            "(visual|vision|image|video|frame|patch|spatial|temporal|spatiotemporal|"
            "multimodal|point|3d|latent|event|pixel|reference|input|redundant) token & "
            "(prun*|merg*|discard*|sparsif*|redundan*|compress*)": 1.5,
            "(prun*|merg*|discard*|drop*|remov*|eliminat*|skip*|fewer) ~ (tokens|patches)": 1.5,
            "visual (redundan*|compress*)": 1,
            "(spatial|temporal|spatiotemporal|inter frame) redundan* & token": 1,
            "patch (prun*|merg*|drop*|select*|reduc*)": 2,
            "number of [visual|vision|image|input|spatial] tokens": 0.7,
            "(visual|vision) token": 0.5,
        },
        against={
            "(weight|channel|filter|head|layer|structured|expert|network) prun*": 1.5,
            "text token": 1,
            "(prompt|context|chain of thought|cot|reasoning) compress*": 1.5,
            "chain of thought": 1,
            "overthinking": 2,
            "fine tuning data|instruction data": 1,
            "kv cache|key value cache": 1,
            "(speech|audio) (token|language model)": 1,
            "(visual|image|video) (tokenizer|tokenization)": 1.5,
            "reinforcement learning with verifiable": 1.5,
            "(key frame|keyframe|frame) select*": 1,
            "quantiz*": 0.7,
            "multi agent|agentic": 1,
            "feature caching|speculative decoding": 1,
        },
    ),
    claims=(
        Claim(
            id="tokens",
            text="Visual tokens fall by 60 to 70 %.",
            metric="tokens saved",
            value=60,
            upper=70,
            unit="%",
            setting="LLaVA-1.5-7B, 576 visual and 100 text tokens",
            counted=counts.tokens,
            finding="Only the count of the last layer falls by so much.",
        ),
        Claim(
            id="flops",
            text="Operations fall by 60 to 70 %.",
            metric="operations saved",
            value=60,
            upper=70,
            unit="%",
            setting="prefill of LLaVA-1.5-7B, 576 visual and 100 text tokens",
            counted=counts.operations,
            finding="The layers before the first head read half of the image's tokens.",
        ),
        Claim(
            id="accuracy",
            text="Accuracy falls by less than 3 %.",
            metric="accuracy lost",
            value=3,
            unit="%",
            direction="lower",
            setting="LLaVA-1.5-7B, tasks not named",
            comparable=Comparable.NOT,
            reason="needs the weights of LLaVA-1.5-7B and its tasks, none of which is named; ours "
            "is a small model on drawn scenes",
            finding="On drawn scenes heads taught by attention lose 8 points at 16 of 64 tokens a "
            "layer and 23 at 8, where each patch is needed by some question.",
        ),
        Claim(
            id="bleu",
            text="BLEU falls by less than 5 %.",
            metric="BLEU lost",
            value=5,
            unit="%",
            direction="lower",
            comparable=Comparable.NOT,
            reason="needs captions and the weights of LLaVA-1.5-7B; answers here are one word",
            finding="Not answered: neither captions nor the weights are at hand.",
        ),
        Claim(
            id="collapse",
            text="Adversarial training collapses near step 1000 (the author's report).",
            metric="accuracy",
            comparable=Comparable.NOT,
            reason="no curve is given",
            ruling="inconclusive",
            argument="bench.py",
            finding="Over 80 steps adversarial, feature matching and neither end alike (30.0, "
            "30.8, 30.3 % right at 4 tokens); no collapse was seen, step 1000 was not reached.",
        ),
    ),
    checks=(
        _check("parameters", "Parts have the source's sizes at 7B", "exact"),
        _check("aggregation", "What a merged token is made of sums to 1", "1e-6"),
        _check("gradients", "Every part learns, only on its own step", "over 1e-6; exactly 0"),
        _check("hard_forward", "Straight-through forward is hard", "exact"),
        _check(
            "log_gate", "log m on the keys at m -> 0 is dropping", "1e-4; scaling: over .1 away"
        ),
        _check("identity", "Keeping all is transformers' model", "1e-5"),
        _check("token_counts", "Layers read what the schedule says", "exact"),
        _check("positions", "Kept in order, at original positions", "exact; gapped 1e-5"),
        _check("caching", "Cached decoding; rows of a padded batch", "1e-5"),
        _check("counted", "Operations and bytes by formula are those counted", "exact"),
        _check("temperature", "tau 1 -> .1 at T / 2, then constant", "1e-12"),
        _check(
            "ordering",
            "random <= learnt <= oracle at every budget",
            "in that order",
            "checks_learning",
        ),
    ),
    commands=(
        Command(name="train", params=TrainParams, entry="practice:train"),
        Command(name="evaluate", params=EvaluateParams, entry="practice:evaluate"),
    ),
    example="example:main",
    benchmarks=(
        Benchmark(
            slug="tradeoff",
            title="Accuracy against tokens",
            description="Drawn scenes with twelve objects, questions of one and two hops: accuracy "
            "of every selection at equal average tokens, with chance at the same layer and an "
            "oracle as bounds.",
            params=TradeoffParams,
            presets={
                "smoke": TradeoffParams(
                    base_steps=15, steps=4, seeds=1, judged=16, budgets=(4,), draws=1
                ),
                "standard": TradeoffParams(seeds=5, steps=200, judged=256),
                "full": TradeoffParams(base_steps=1000, steps=2000, seeds=5, judged=4096),
            },
            version=2,
            entry="bench:tradeoff",
        ),
        Benchmark(
            slug="latency",
            title="Time to the first token",
            description="Time to first token, prefill, decoding, memory and cache of the source's "
            "schedule against the same model unpruned, with the bound that operations set.",
            params=LatencyParams,
            presets={
                "smoke": LatencyParams(
                    processes=3,
                    seconds=0,
                    size="tiny",
                    text=8,
                    batches=(1,),
                    decoded=2,
                    max_warm_up_s=0,
                ),
                "standard": LatencyParams(),
                "full": LatencyParams(size="7b", dtype="bfloat16", blocks=10),
            },
            entry="bench_latency:latency",
            memory="bench_latency:latency_bytes",
        ),
        Benchmark(
            slug="training",
            title="Adversarial, feature matching, neither",
            description="Curves and final accuracy of the three losses on the same batches, and of "
            "each stage alone and the source's faithful forms.",
            params=TrainingParams,
            presets={
                "smoke": TrainingParams(base_steps=10, steps=3, seeds=1, judged=16, watch=1),
                "standard": TrainingParams(steps=80, judged=2048),
                "full": TrainingParams(base_steps=1000, steps=4000, seeds=5, judged=4096),
            },
            version=2,
            entry="bench:training",
        ),
    ),
)
