"""What grouped-head sparse attention says of itself. Free of torch."""

from __future__ import annotations

from methods.sparse_attention import counts
from methods.sparse_attention.params import (
    LanguageModelParams,
    LatencyParams,
    MemoryParams,
    ModelParams,
    RecallParams,
)
from methods.spec import (
    Answer,
    Benchmark,
    Check,
    Claim,
    Comparable,
    Family,
    Method,
    Paper,
)

_SMOKE_LENGTHS = (256, 1024)

METHOD = Method(
    slug="sparse_attention",
    title="Grouped-head sparse attention",
    description="Causal attention in which two thirds of the heads see a sliding window and one "
    "third sees uniformly spaced anchor tokens. The window grows with the square root of the "
    "configured context. We measure it against dense attention and published sparse attention, "
    "on CPU and GPU, and answer each of the source's claims.",
    papers=(
        Paper(
            arxiv_id="1904.10509",
            title="Generating Long Sequences with Sparse Transformers",
            role="ancestor",
        ),
        Paper(
            arxiv_id="2004.05150",
            title="Longformer: The Long-Document Transformer",
            role="baseline",
        ),
        Paper(
            arxiv_id="2007.14062",
            title="Big Bird: Transformers for Longer Sequences",
            role="baseline",
        ),
        Paper(
            arxiv_id="2307.08691",
            title="FlashAttention-2: Faster Attention with Better Parallelism and Work "
            "Partitioning",
            role="related",
        ),
        Paper(
            arxiv_id="2412.05496",
            title="Flex Attention: A Programming Model for Generating Optimized Attention Kernels",
            role="baseline",
        ),
    ),
    aliases=(
        "sparse attention",
        "sliding window attention",
        "local attention",
        "windowed attention",
        "strided attention",
        "block-sparse attention",
        "Longformer",
        "BigBird",
        "Sparse Transformer",
    ),
    family=Family(
        what="Attention in which a query sees few keys by choice: window, block, stride, "
        "neighbourhood, top-k, retrieval of keys while decoding; its kernels, training, "
        "serving and analysis.",
        near="A window or sparse layer as one part of a network, mixtures with linear attention, "
        "eviction and compression of the cache of keys and values.",
        outside="Swin as a backbone, sliding windows over data, sparse rewards, sparse experts, "
        "sparse autoencoders, linear attention alone.",
        phrases={
            "sparse [self|cross|linear|causal|native|global] attention": 2.5,
            "sparse ~ attention": 1.5,
            "attention sparsity|sparsity of attention|attention sparsif*": 2,
            "(sparsif*) ~ attention": 1.5,
            "(sliding|shifted) window [self] attention": 1.5,
            "(block sparse|block wise sparse|blockwise sparse|top k|neighbo[u]rhood|"
            "strided|dilated|local|windowed|clustered|chunked|selective|focal|hash*) "
            "[sparse] [self|cross|global] attention": 1.5,
            "(sparse|sparsity|sparsif*) & attention": 1,
            "sparse transformer": 1,
            "block sparse attention": 1.5,
            "(structured|redundant|retrieval|hashing) attention|attention (candidate|redundan*)": 1,
            "selectively attend|attend* ~ (relevant|selected|local)": 1,
            "restrict* ~ (key|keys|kv|attention)": 1,
            "(attend*|attention) ~ (subset|top k|selected|few|fewer) [of]": 1.5,
            "(select*|retriev*) ~ (key|kv|key value)": 1,
            "(kv|key value) (cache)* (retriev*|select*)": 1.5,
            "(select*|retriev*|subset|critical|important|relevant|top k) & (kv|key value|keys)": 1,
            "(dynamic|trainable|training free|learnable|block|native) spars*": 1,
            "full attention & (window|sparse|local|subset)": 1,
            "locality sensitive hashing": 1,
            "token selection & attention": 0.7,
            "sliding window": 0.3,
            "long context": 0.5,
            "quadratic (complexity|cost)": 0.5,
        },
        against={
            "swin": 1.5,
            "sparse (reward|autoencoder|coding|view|reconstruction|depth|label|"
            "annotation|expert|mixture)": 1.5,
            "segmentation|detection|denoising|forecasting": 0.7,
            "sliding window (strategy|approach|inference|fashion|manner)": 1.5,
            "(kv|key value) cache (evict*|compress*|prun*|quantiz*)": 1.5,
            "quantiz*": 1,
            "linear attention|state space|mamba": 0.7,
            "(such as|including|like|than|and) sparse attention": 1.5,
            "positional encoding|rope": 0.7,
            "speculative decoding": 0.7,
            "global local attention|local and global attention": 1,
            "graph": 0.5,
        },
    ),
    claims=(
        Claim(
            id="complexity",
            text="The cost of attention falls from O(n^2) to O(n w).",
            metric="exponent of the growth",
            value=1.0,
            direction="lower",
            quote="O(n²) -> O(n·w)",
            counted=counts.complexity,
            finding="False as stated: the global third of the heads stays quadratic.",
        ),
        Claim(
            id="speed",
            text="1.2 to 2.0 times faster.",
            metric="speed-up",
            value=1.2,
            upper=2.0,
            unit="times",
            quote="1.2-2.0x",
            comparable=Comparable.RATIO_ONLY,
            reason="the source names neither hardware nor baseline",
            finding="A naive masked implementation is slower than dense attention; tiles that skip "
            "what is masked gain more than claimed.",
            answer=Answer(
                benchmark="latency", series="forward", variant="adaptive", x=1024, quantity="ratio"
            ),
        ),
        *(
            Claim(
                id=f"operations_{n}",
                text=f"{times} times fewer operations at {n} tokens.",
                metric="operations",
                value=times,
                unit="times",
                setting=f"n = {n}",
                counted=counts.operations(n),
                finding="The source compares dense attention without a causal mask with one local "
                "head at w = 128, while its default window grows with the context.",
            )
            for n, times in ((512, 4.0), (1024, 7.7), (2048, 16.2), (4096, 32.3))
        ),
        Claim(
            id="memory",
            text="Memory falls from 2 to 0.5 MB and, at the longest, from 128 to 4 MB.",
            metric="memory",
            value=4.0,
            upper=32.0,
            unit="times",
            quote="2 MB -> 0.5 MB ... 128 MB -> 4 MB",
            counted=counts.memory,
            finding="Counts one head's n x n scores, which fused attention never stores.",
        ),
        Claim(
            id="sparsity",
            text="Sparsity between 0.6 and 0.8.",
            metric="sparsity",
            value=0.6,
            upper=0.8,
            counted=counts.sparsity,
            finding="Holds averaged over the heads, with the adaptive window, up to 1,024 tokens.",
        ),
        Claim(
            id="quality",
            text="Quality on a par with dense attention.",
            metric="quality",
            reason="the source gives no number",
            ruling="partly",
            argument="bench_quality.py",
            finding="A byte language model agrees within the interval; recall of a needle far "
            "away depends on whether it stands on an anchor.",
        ),
    ),
    checks=(
        Check(
            name="oracle",
            title="Output, dQ, dK, dV against the float64 definition",
            bound="fp32 1e-5, bf16 1e-2, fp16 2e-3, relative to the norm",
            entry="checks:oracle",
        ),
        Check(
            name="gradients",
            title="Backward pass against finite differences",
            bound="gradcheck in float64",
            entry="checks:gradients",
        ),
        Check(
            name="causality",
            title="Changing the future changes nothing",
            bound="exactly 0",
            entry="checks:causality",
        ),
        Check(
            name="finite",
            title="Finite at scales 0, 1e-3, 100, 1e4, gradients too",
            bound="three dtypes",
            entry="checks:finite",
        ),
        Check(
            name="decoding",
            title="Cached decoding and prefixes equal the full pass",
            bound="1e-5",
            entry="checks:decoding",
        ),
        Check(
            name="padding",
            title="Padding rows 0, batch equals single, GQA equals copied heads",
            bound="0 and 1e-5",
            entry="checks:padding",
        ),
        Check(
            name="memory_growth",
            title="Peak memory when n doubles",
            bound="2.3 times",
            entry="checks:memory_growth",
        ),
        Check(
            name="closed_forms",
            title="Closed-form sparsity equals the counted mask",
            bound="exact",
            entry="checks:closed_forms",
        ),
        Check(
            name="two_layer_reach",
            title="Two layers reach all causal pairs when w >= s",
            bound="all pairs",
            entry="checks:two_layer_reach",
        ),
    ),
    example="example:main",
    benchmarks=(
        Benchmark(
            slug="latency",
            title="Latency over length",
            description="Time of attention, forward and with backward, against dense attention, "
            "masked attention and published sparse attention in one run.",
            params=LatencyParams,
            presets={
                "smoke": LatencyParams(
                    lengths=(256, 512),
                    backward_up_to=256,
                    peers_up_to=256,
                    linear_peers_up_to=0,
                    flex=False,
                    processes=3,
                    seconds=0,
                    max_warm_up_s=0.2,
                ),
                "standard": LatencyParams(),
                "full": LatencyParams(
                    lengths=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
                    batch=4,
                    dtype="bfloat16",
                    backward_up_to=32768,
                    samples=3,
                ),
            },
            entry="bench:latency",
            memory="bench:latency_memory",
        ),
        Benchmark(
            slug="memory",
            title="Memory over length",
            description="Peak memory of a training step of attention, and the key-value cache.",
            params=MemoryParams,
            presets={
                "smoke": MemoryParams(lengths=_SMOKE_LENGTHS),
                "standard": MemoryParams(),
                "full": MemoryParams(lengths=(1024, 4096, 16384, 65536), peers_up_to=4096),
            },
            entry="bench:memory",
            memory="bench:memory_memory",
        ),
        Benchmark(
            slug="model",
            title="A whole GPT-2 step",
            description="What is left of the gain when projections, MLP and vocabulary count.",
            params=ModelParams,
            presets={
                "smoke": ModelParams(
                    lengths=(256,),
                    n_embd=192,
                    vocab_size=512,
                    threads=1,
                    processes=3,
                    seconds=0,
                    max_warm_up_s=0.3,
                ),
                "standard": ModelParams(),
                "full": ModelParams(lengths=(1024, 4096, 16384), n_layer=12),
            },
            entry="bench:model",
            memory="bench:model_memory",
        ),
        Benchmark(
            slug="language_model",
            title="Byte language model",
            description="Bits per byte on the source of Python's standard library after equal "
            "training: dense, local heads only, and ours.",
            params=LanguageModelParams,
            presets={
                "smoke": LanguageModelParams(context=128, window=32, n_layer=1, steps=10, batch=4),
                "standard": LanguageModelParams(),
                "full": LanguageModelParams(
                    context=1024, window=128, n_layer=6, n_embd=384, steps=3000, batch=32
                ),
            },
            entry="bench_quality:language_model",
        ),
        Benchmark(
            slug="recall",
            title="Recall of needles",
            description="Values remembered by key over a distance, when the needle stands on an "
            "anchor and when it does not: dense, local heads only, ours, and pooled anchors.",
            params=RecallParams,
            presets={
                "smoke": RecallParams(context=64, window=16, steps=30, batch=16, gate=0.0),
                "standard": RecallParams(),
                "full": RecallParams(context=1024, steps=3000, batch=64, window=64),
            },
            entry="bench_quality:recall",
        ),
    ),
)
