"""What concept language models say of themselves. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

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

Contexts = Annotated[
    tuple[Annotated[int, Field(ge=16, le=32_768)], ...], Field(min_length=1, max_length=8)
]
Depths = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1)]
Inverses = Annotated[
    tuple[Annotated[int, Field(ge=2, le=64)], ...], Field(min_length=1, max_length=6)
]


class _Split(Params):
    shallow: int = parameter(2, "Layers that see every token.", ge=1, le=64)
    middle: int = parameter(8, "Layers that see concepts only.", ge=0, le=64)
    deep: int = parameter(2, "Layers that see concepts and the tail.", ge=1, le=64)


class DecodeParams(_Split, TimedParams):
    """Parameters of `decode`."""

    d: int = parameter(512, "Width of the model.", ge=64, le=8192, multiple_of=64)
    contexts: Contexts = parameter(
        (512, 2048, 4096), "Tokens before the measured ones.", unit="tokens"
    )
    tokens_per_concept: Inverses = parameter(
        (2, 4, 8), "1 / rho: tokens for each concept.", unit="tokens"
    )
    batch: int = parameter(1, "Rows decoded together.", ge=1, le=64)
    vocab: int = parameter(256, "Tokens in the vocabulary.", ge=2, le=262_144)
    n_concepts: int = parameter(256, "Concepts in the vocabulary.", ge=1, le=65_536)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "Type of the weights.")
    oracle: int = parameter(256, "Length at which the loop is timed; 0 skips it.", ge=0, le=2048)
    longest_prompt: int = parameter(
        2048, "Longest prompt whose reading is timed.", unit="tokens", ge=0, le=32_768
    )
    model: str = parameter(
        "", "Folder or hub id of real weights; empty is random.", model=True, max_length=300
    )


class CompressionParams(_Split):
    """Parameters of `compression`."""

    middle: int = parameter(4, "Layers that see concepts only.", ge=0, le=64)
    d: int = parameter(64, "Width of the model.", ge=32, le=2048, multiple_of=32)
    pretrain_steps: int = parameter(600, "Steps of the base on plain text.", ge=1, le=1_000_000)
    steps: int = parameter(200, "Steps of each candidate from that base.", ge=1, le=1_000_000)
    rows: int = parameter(8, "Windows a batch.", ge=1, le=1024)
    length: int = parameter(128, "Bytes a window.", unit="bytes", ge=16, le=8192)
    judged: int = parameter(64, "Held-out windows.", ge=1, le=4096)
    rho: float = parameter(0.25, "Share of positions that become concepts.", gt=0, lt=1)
    n_concepts: int = parameter(256, "Concepts in the vocabulary.", ge=1, le=65_536)
    seeds: int = parameter(3, "Trainings of each candidate.", ge=1, le=10)


class ScratchParams(_Split):
    """Parameters of `scratch`."""

    shallow: int = parameter(1, "Layers that see every byte.", ge=1, le=64)
    middle: int = parameter(4, "Layers that see concepts only.", ge=0, le=64)
    deep: int = parameter(1, "Layers that see concepts and the tail.", ge=1, le=64)
    dense: Depths = parameter((2, 4, 6, 3), "Depths of dense models; the last is the baseline.")
    d: int = parameter(64, "Width of the models.", ge=32, le=2048, multiple_of=32)
    steps: int = parameter(400, "Steps of training.", ge=1, le=1_000_000)
    lr: float = parameter(3e-3, "Highest learning rate.", gt=0, le=1)
    rows: int = parameter(8, "Windows a batch.", ge=1, le=1024)
    length: int = parameter(128, "Bytes a window.", unit="bytes", ge=16, le=8192)
    judged: int = parameter(256, "Held-out windows.", ge=1, le=8192)
    rho: float = parameter(0.2, "Share of concepts, where the text does not set it.", gt=0, lt=1)
    n_concepts: int = parameter(256, "Concepts in the vocabulary, a power of 4.", ge=4, le=65_536)
    seeds: int = parameter(3, "Trainings of each model.", ge=1, le=10)
    data: str = parameter(
        "",
        "Folder of text of one's own; empty is this Python's library.",
        local=True,
        max_length=300,
    )


class PlannerParams(Params):
    """Parameters of `planner` and `dropout`."""

    warm_up: int = parameter(1200, "Steps of the autoencoder warm-up.", ge=0, le=100_000)
    through: Literal["text", "prompt", "elbo"] = parameter(
        "text", "What the warm-up makes plans of; elbo: of the text, charged for p(z | u)."
    )
    steps: int = parameter(150, "Steps of Hard-EM.", ge=1, le=100_000)
    cool: float = parameter(0.2, "Temperature at which the warm-up ends.", gt=0, le=1)
    naive_steps: int = parameter(100, "Steps of Hard-EM without help; 0 skips.", ge=0, le=100_000)
    seeds: int = parameter(3, "Trainings.", ge=1, le=10)
    types: int = parameter(2, "Types of concepts.", ge=1, le=4)
    bits: Literal[2, 4, 6] = parameter(6, "Bits of a code.", unit="bits")
    watch: int = parameter(250, "Steps between two looks at the monitors.", ge=1, le=10_000)

    @model_validator(mode="after")
    def _long_enough(self) -> PlannerParams:
        if self.watch > self.warm_up + self.steps:
            raise ValueError("watch is longer than the whole training")
        return self


Source = Annotated[str, Field(min_length=1, max_length=300)]


class _Real(Params):
    model: Source = parameter(..., "Folder or hub id of a Qwen with its tokenizer.", local=True)
    out: Source = parameter(..., "Folder of training.pt, to resume, and concepts.pt.", local=True)
    dtype: Literal["auto", "float32", "bfloat16"] = parameter(
        "auto", "Type of the base's weights; auto is the checkpoint's own."
    )
    seed: int = parameter(0, "Of weights, batches and draws.", ge=0, le=2**31)


class TrainParams(_Real):
    """Parameters of `train`: any text."""

    data: Source = parameter(..., "Folder of text files; a tenth is held out.", local=True)
    version: Literal["v2", "v3"] = parameter(
        "v2", "v2 compresses while it decodes; v3 plans the second half of a window from the first."
    )
    steps: int = parameter(1000, "Steps.", ge=1, le=1_000_000)
    every: int = parameter(50, "Steps between checkpoints.", ge=1, le=100_000)
    rows: int = parameter(4, "Windows a batch.", ge=1, le=1024)
    length: int = parameter(512, "Tokens a window.", unit="tokens", ge=8, le=32_768)
    judged: int = parameter(32, "Held-out windows.", ge=1, le=4096)
    lr: float = parameter(3e-4, "Highest learning rate.", gt=0, le=1)
    edge: int = parameter(0, "Layers before and after the middle; 0: a seventh of all.", ge=0)
    rho: float = parameter(0.25, "Share of positions that become concepts.", gt=0, lt=1)
    n_concepts: int = parameter(
        4096, "Concepts in the vocabulary, of each type in v3.", ge=1, le=65_536
    )
    types: int = parameter(2, "v3: types of concepts in a plan.", ge=1, le=8)
    slots: int = parameter(4, "v3: concepts of each type.", ge=1, le=64)
    through: Literal["text", "prompt", "elbo"] = parameter("prompt", "v3: what plans are made of.")


class GenerateParams(_Real):
    """Parameters of `generate`, with what `train` wrote."""

    prompt: str = parameter(..., "Text to go on from.", min_length=1, max_length=100_000)
    new: int = parameter(64, "Tokens to write.", unit="tokens", ge=1, le=32_768)
    temperature: float = parameter(0.0, "0 takes the likeliest token.", ge=0, le=10)


def _check(name: str, title: str, bound: str, entry: str = "checks") -> Check:
    return Check(name=name, title=title, bound=bound, entry=f"{entry}:{name}")


METHOD = Method(
    slug="concept_lm",
    title="Concept language models",
    description=(
        "Discrete concept tokens inside a Qwen model: compressed online while it decodes (v2), or "
        "planned before it writes (v3), with LoRA and small new modules on a frozen base; "
        "benchmarks of v3 use small models of their own. The step-by-step loop of v2 is trained in "
        "one exactly equivalent pass."
    ),
    papers=(
        Paper(arxiv_id="2512.24617", title="Dynamic Large Concept Models", role="related"),
        Paper(
            arxiv_id="2602.08984",
            title="Next Concept Prediction in Discrete Latent Space Leads to Stronger Language "
            "Models",
            role="related",
        ),
        Paper(
            arxiv_id="2507.07955",
            title="H-Net: Dynamic Chunking for End-to-End Hierarchical Sequence Modeling",
            role="baseline",
        ),
        Paper(
            arxiv_id="2412.09871",
            title="Byte Latent Transformer: Patches Scale Better Than Tokens",
            role="related",
        ),
        Paper(
            arxiv_id="2502.08524", title="LLM Pretraining with Continuous Concepts", role="related"
        ),
        Paper(
            arxiv_id="2412.08821",
            title="Large Concept Models: Language Modeling in a Sentence Representation Space",
            role="related",
        ),
        Paper(
            arxiv_id="2510.27688", title="Continuous Autoregressive Language Models", role="related"
        ),
        Paper(
            arxiv_id="2304.08467",
            title="Learning to Compress Prompts with Gist Tokens",
            role="baseline",
        ),
        Paper(
            arxiv_id="2106.09685",
            title="LoRA: Low-Rank Adaptation of Large Language Models",
            role="ancestor",
        ),
        Paper(
            arxiv_id="1611.01144",
            title="Categorical Reparameterization with Gumbel-Softmax",
            role="ancestor",
        ),
    ),
    aliases=("concept tokens", "concept compression", "large concept model", "latent planning"),
    family=Family(
        what="Reasoning or language modelling in vectors rather than words: latent and continuous "
        "thought, looped and recurrent depth, compression of a context into vectors, chunked, "
        "hierarchical and byte-level language models, prediction of concepts or sentences.",
        near="Compression of prompts by leaving words out, hidden states that are only observed, "
        "prediction of several tokens at once.",
        outside="Concept erasure and bottlenecks, latent spaces of image generators, shorter "
        "written chains of thought.",
        phrases={
            "latent [visual|spatial|motion|multimodal|continuous|implicit] (reasoning|"
            "reasoner|thought|thinking|chain of thought|cot|planning|deliberation)": 3,
            "(continuous|soft|implicit|silent) (chain of thought|thought|cot|reasoning|"
            "thinking|chain of continuous)": 2.5,
            "(reason*|think*|thought) ~ (latent space|latents|hidden state)": 2,
            "(reason*|thought|thinking) & (latent space|latent token|latent state|latent "
            "vector|continuous space|continuous latent|continuous representation)": 1.5,
            "(latent|memory|soft|gist|implicit|summary|thought|pause) token": 1,
            "latent memory": 1,
            "(compress*|condens*|encod*|distill*) ~ (vector|embedding|memory token|soft "
            "token|latent token|gist|soft prompt)": 1,
            "(compress*|condens*) & (context|prompt|document|passage|history|chunk|"
            "evidence) & (embedding|vector|latent|soft|memory token|gist|representation)": 1.5,
            "gist token": 2,
            "soft [prompt] compress*": 2,
            "context compress*": 1,
            "dynamic chunking|h net": 2,
            "(byte|character) level ~ (language model|model*|transformer|lm)": 1.5,
            "tokeni*er free|token* free": 2,
            "(learn*|adaptive|flexible|dynamic) (tokeni*|patching|segmentation) & (byte|"
            "language|sequence)": 1.5,
            "hierarchical (language|autoregressive|reasoning) model": 2,
            "next (concept|sentence|sentence embedding|chunk|thought) predict*": 3,
            "(sentence|concept) (level|embedding) & (predict*|autoregress*|language model*)": 1.5,
            "large concept model": 3,
            "concept [level] (model*|token)": 1,
            "loop* ~ (transformer|language model|llm)": 2.5,
            "loop* & (layer|depth|block) & (transformer|language model|llm|parameter)": 1.5,
            "(recurrent depth|depth recurren*|recurren* in depth|depth recursion)": 2.5,
            "(recursive|tiny recursive|hierarchical) reasoning model|recursive (model|"
            "transformer|computation)": 1.5,
            "universal transformer": 1.5,
            "iterat* & (hidden state|shared layer|same layer|weight tied|latent)": 1,
            "coconut": 2,
            "hidden state": 0.3,
            "latent (step|slot|trajector*|world model)": 1,
            "(mixture|superposition) of token": 1.5,
            "(single|one|few) ~ token & (prompt|context|document|evidence)": 0.7,
            "implicit ~ token": 1,
            "loop*": 0.7,
            "partial recursion|recursive computation|depth growth|depth grown": 1.5,
            "continuous (hidden|latent|thought) (state|token|vector|representation)": 1,
            "(compressor|decompressor) & (language model|llm)": 1.5,
        },
        against={
            "registration": 3,
            "diffusion transformer|image generation|video generation": 1.5,
            "latent diffusion": 1.5,
            "concept erasure|concept bottleneck": 3,
            "point cloud": 1.5,
            "multi token prediction": 1,
            "vae|autoencoder": 1,
            "segmentation|detection": 1,
            "latent (action|variable|factor|knowledge|capacity|abilit*)": 1,
            "chunking (strateg*|method|pipeline|approach)": 2,
            "(bpe|byte pair|vocabulary|subword)": 0.7,
            "llmlingua|(sentence|token) (pruning|level pruning)|extractive": 1.5,
            "implicit (bias|knowledge|feedback|neural representation)": 1.5,
            "(agent|terminal|tool) & context compress*": 1,
            "speculative": 1,
            "brain|fmri|eeg": 1,
        },
    ),
    claims=(
        Claim(
            id="gist_flops",
            text="Gist tokens save up to 40 % of the operations but 4.2 % of the wall time.",
            metric="wall time saved",
            value=4.2,
            unit="%",
            setting="instruction prompts compressed to gist tokens, LLaMA-7B",
            quote="up to 26x compression of prompts, resulting in up to 40% FLOPs reductions, 4.2% "
            "wall time speedups",
            section="Abstract",
            comparable=Comparable.NOT,
            reason="needs LLaMA-7B with gist tokens: ours compresses while decoding, not prompts",
            finding="What it warns of, the gap between operations and time, is small here: at "
            "2,048 tokens v2 with one concept in eight needs 3.0 times fewer operations a token "
            "and decodes 2.4 times faster.",
        ),
    ),
    checks=(
        _check(
            "oracle",
            "The packed pass is the equations, step by step",
            "logits within 1e-12 in fp64",
        ),
        _check("gradients", "And has their gradients", "1e-12 in fp64; 1e-5 with Qwen's own norms"),
        _check("decoding", "Cached decoding is the full forward", "1e-12 in fp64, 1e-5 in fp32"),
        _check("leak", "No logit depends on a later token", "gradients exactly 0"),
        _check("dropped_layers", "All NULL is the base without its middle", "exactly"),
        _check("flex", "FlexAttention's mask is SDPA's", "within 1e-5"),
        _check("trainables", "Only LoRA, head and embedding are trained", "exactly; base restored"),
        _check("lora_dropout", "LoRA's dropout is on in training, off elsewhere", "as set"),
        _check("ragged", "A padded batch is its rows alone", "within 1e-5"),
        _check(
            "null_rate",
            "The share of concepts is held",
            "within 0.03, runs at most R",
            "checks_learning",
        ),
        _check("middle_gradients", "With every token NULL the middle learns nothing", "exactly 0"),
        _check(
            "bottleneck",
            "Concepts carry what shallow attention cannot",
            "shuffling costs over 5 nats with a window, under 0.05 without",
            "checks_learning",
        ),
        _check(
            "monitors",
            "The monitors see a collapse and let a healthy run be",
            "flagged / no action",
            "checks_learning",
        ),
        _check(
            "typed_plans",
            "Planner and executor are their equations; the executor never sees u",
            "within 1e-12; exactly",
            "checks_plans",
        ),
        _check(
            "objectives",
            "v3's losses hide what they say, the E-step weighs log p(z | u) by beta",
            "exactly; within 1e-4",
            "checks_plans",
        ),
    ),
    example="example:main",
    commands=(
        Command(name="train", params=TrainParams, entry="practice:train"),
        Command(name="generate", params=GenerateParams, entry="practice:write"),
    ),
    benchmarks=(
        Benchmark(
            slug="decode",
            title="Decoding speed",
            description="Tokens a second, prefill and cache of v2 against the same base, over "
            "context and compression, with the bound that counted operations set.",
            params=DecodeParams,
            presets={
                "smoke": DecodeParams(
                    shallow=1,
                    middle=2,
                    deep=1,
                    d=64,
                    contexts=(64,),
                    tokens_per_concept=(4,),
                    oracle=32,
                    max_warm_up_s=0.2,
                    processes=3,
                    seconds=0,
                ),
                "standard": DecodeParams(),
                "full": DecodeParams(
                    shallow=4,
                    middle=20,
                    deep=4,
                    d=1024,
                    contexts=(1024, 8192, 32_768),
                    vocab=151_936,
                    n_concepts=4096,
                    dtype="bfloat16",
                    blocks=9,
                    longest_prompt=32_768,
                ),
            },
            entry="bench:decode",
        ),
        Benchmark(
            slug="compression",
            title="Compression and quality",
            description="Bits a byte of Python source against operations a byte: v2 and its "
            "baselines from one base, on identical data and steps.",
            params=CompressionParams,
            presets={
                "smoke": CompressionParams(
                    d=32,
                    pretrain_steps=10,
                    steps=5,
                    rows=4,
                    length=64,
                    judged=4,
                    n_concepts=32,
                    seeds=1,
                ),
                "standard": CompressionParams(),
                "full": CompressionParams(
                    d=512, pretrain_steps=20_000, steps=10_000, rows=64, length=1024, seeds=3
                ),
            },
            entry="bench_compression:compression",
        ),
        Benchmark(
            slug="scratch",
            title="From nothing, on bytes",
            description="Bits a byte of held-out text against operations a byte: concepts by the "
            "source's head, by H-Net's boundary and at word ends, beside dense models of several "
            "depths that saw the same bytes; codes shuffled and removed as controls.",
            params=ScratchParams,
            presets={
                "smoke": ScratchParams(
                    d=32, dense=(2,), steps=3, rows=2, length=32, judged=2, seeds=1
                ),
                "standard": ScratchParams(),
                "full": ScratchParams(
                    d=512, steps=20_000, rows=64, length=1024, n_concepts=4096, seeds=5
                ),
            },
            entry="bench_scratch:scratch",
        ),
        Benchmark(
            slug="planner",
            title="Planning before writing",
            description="v3 on a task with known entropies: what the plan carries, how many codes "
            "it uses, and eight monitors over training, beside the naive variant's collapse.",
            params=PlannerParams,
            presets={
                "smoke": PlannerParams(
                    warm_up=6, steps=4, naive_steps=4, seeds=1, bits=4, watch=10
                ),
                "standard": PlannerParams(),
                "full": PlannerParams(warm_up=3000, steps=2000, naive_steps=2000, seeds=5),
            },
            version=2,
            entry="bench_planner:planner",
        ),
        Benchmark(
            slug="dropout",
            title="Losing concepts",
            description="What the text costs when a random share of a plan is taken away.",
            params=PlannerParams,
            presets={
                "smoke": PlannerParams(
                    warm_up=6, steps=4, naive_steps=0, seeds=1, bits=4, watch=10
                ),
                "standard": PlannerParams(naive_steps=0),
                "full": PlannerParams(warm_up=3000, steps=2000, naive_steps=0, seeds=5),
            },
            version=2,
            entry="bench_planner:dropout",
        ),
    ),
)
