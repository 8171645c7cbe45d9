"""What semantic-enhanced patch slimming says of itself. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from methods.spec import (
    Answer,
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

Counts = Annotated[tuple[Annotated[int, Field(ge=2, le=1024)], ...], Field(min_length=1)]
Shares = Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]


class RetrievalParams(Params):
    """Parameters of `retrieval`."""

    steps: int = parameter(600, "Steps of each candidate.", ge=1, le=1_000_000)
    hardest_after: float = parameter(
        0.25,
        "Share of the steps in which all negatives count alike; then the hardest count ever more.",
        ge=0,
        le=1,
    )
    teach_steps: int = parameter(
        750, "Steps in which the image encoder learns the labels of patches.", ge=0, le=1_000_000
    )
    batch: int = parameter(24, "Pairs a batch.", ge=2, le=512)
    dim: int = parameter(64, "Width of patches and words.", ge=16, le=1024, multiple_of=4)
    keep: float = parameter(0.5, "Share of the patches that stay.", gt=0, le=1)
    aggregate: float = parameter(0.4, "Aggregated tokens for each that stays.", gt=0, le=1)
    rate: float = parameter(1e-3, "Highest learning rate.", gt=0, le=1)
    judged: int = parameter(256, "Held-out pairs that are searched.", ge=16, le=5000)
    seeds: int = parameter(3, "Trainings of each candidate.", ge=1, le=10)
    folder: str = parameter(
        "", "Folder of checkpoints to resume from; empty: none.", local=True, max_length=300
    )
    threads: int = parameter(0, "Threads on the CPU; 0 takes all cores.", ge=0, le=256)


Source = Annotated[str, Field(min_length=1, max_length=300)]


class _Real(Params):
    data: Source = parameter(..., "The source's data folder: f30k, coco and images.", local=True)
    dataset: Literal["f30k", "coco"] = parameter("f30k", "Flickr30K or COCO.")
    vision: Source = parameter(..., "Folder or hub id of a ViT or Swin.", local=True)
    text: Source = parameter(..., "Folder or hub id of a BERT with its tokenizer.", local=True)
    skip: bool = parameter(False, "Leave out images that cannot be used.")


class TrainParams(_Real):
    """Parameters of `train`: Flickr30K or COCO; the defaults are the source's for ViT."""

    out: Source = parameter(..., "Folder for training.pt, to resume from, and best.pt.", local=True)
    candidate: Literal[
        "seps_learnt", "seps_sparse", "seps_image", "seps", "paper", "open_source", "laps",
        "random", "whole",
    ] = parameter("seps_learnt", "What is trained: as `retrieval` names them.")  # fmt: skip
    dim: int = parameter(512, "Width that patches and words share.", ge=8, le=4096)
    keep: float = parameter(0.5, "Share of the patches that stay; .8 for Swin.", gt=0, le=1)
    aggregate: float = parameter(0.4, "Aggregated tokens for each; .6 for Swin.", gt=0, le=1)
    words: int = parameter(90, "Tokens of a text at most.", unit="tokens", ge=3, le=512)
    steps: int = parameter(68_000, "Steps; these are 30 epochs of Flickr30K.", ge=1, le=10_000_000)
    batch: int = parameter(64, "Pairs a batch.", ge=2, le=4096)
    rate: float = parameter(2e-5, "Of the encoders; what is new learns ten times faster.", gt=0)
    hardest_after: float = parameter(0.03, "Share of steps before hardest negatives.", ge=0, le=1)
    held_out: int = parameter(1000, "Images of train to validate by, without a dev split.", ge=1)
    judge_every: int = parameter(2000, "Steps between validations.", ge=1)
    every: int = parameter(500, "Steps between checkpoints.", ge=1)
    seed: int = parameter(0, "Of weights, order and augmentation.", ge=0, le=2**31)


class EvaluateParams(_Real):
    """Parameters of `evaluate`."""

    matcher: Source = parameter(..., "The best.pt that `train` wrote.", local=True)
    split: Literal["", "test", "testall", "dev"] = parameter(
        "", "Empty: the data set's test split."
    )


class CostParams(TimedParams):
    """Parameters of `cost`."""

    dim: int = parameter(512, "Width of patches and words.", ge=16, le=2048, multiple_of=4)
    patches: int = parameter(196, "Patches of an image; ViT-224 has 196.", ge=16, le=4096)
    batches: Counts = parameter((32, 128), "Images, and as many captions.", max_length=6)
    words: Counts = parameter((32, 64), "Words of a caption.", unit="words", max_length=6)
    keeps: Shares = parameter((0.2, 0.5, 0.8), "Shares of patches that stay.", max_length=6)


def _check(name: str, title: str, bound: str) -> Check:
    return Check(name=name, title=title, bound=bound, entry=f"checks:{name}")


def _gain_claim(name: str, ours: tuple[str, float], laps: float, *, x: str | None) -> Claim:
    """What SEPS gains over LAPS: other images and encoders leave no more to compare."""
    variant, value = ours
    what = "rSum" if x is None else x
    alone = " with the sparse text alone (ablation)" if variant == "seps_sparse" else ""
    return Claim(
        id=name,
        text=f"SEPS reaches {value} in {what}{alone}, against {laps} of LAPS.",
        metric=f"{what}, over LAPS",
        value=round(value / laps, 3),
        unit="times",
        setting="Flickr30K, ViT-224",
        comparable=Comparable.RATIO_ONLY,
        reason="other images and encoders: our scenes are made on the fly",
        finding="No caption knows its image here: the row that compares." if alone else _LEAK,
        answer=Answer(
            benchmark="retrieval",
            series="recall" if x else "rsum",
            variant=variant,
            x=x,
            quantity="ratio",
            against="laps",
        ),
    )


def _laps_claim(name: str, value: float, x: str) -> Claim:
    return Claim(
        id=name,
        text=f"LAPS reaches {value} in {x}.",
        metric="R@1",
        value=value,
        unit="%",
        setting="Flickr30K, ViT-224",
        comparable=Comparable.NOT,
        reason="needs Flickr30K and a pretrained ViT-224: a level, not a gain",
        finding="Without a dense text, so without the leak.",
    )


_LEAK = (
    "Each test caption brings the dense caption of its own image, which describes the target. "
    "Without it the paper's own ablation falls to 67.2 % text to image: read the sparse-only row."
)
_TO_TEXT, _TO_IMAGE = "image to text, R@1", "text to image, R@1"
_SMOKE = RetrievalParams(steps=4, teach_steps=3, batch=8, dim=32, judged=16, seeds=1, threads=1)
_FULL = RetrievalParams(steps=5000, teach_steps=2000, batch=128, dim=128, judged=1000, seeds=5)

METHOD = Method(
    slug="seps",
    title="Semantic-enhanced patch slimming",
    description=(
        "Matches images with captions patch by word, after leaving out patches that the caption "
        "does not speak of and merging the rest into a few tokens. Both variants of the source, "
        "with its gradient faults mended behind named options and its likely test-time leak shown."
    ),
    papers=(
        Paper(
            arxiv_id="2511.01390",
            title="SEPS: Semantic-enhanced Patch Slimming Framework for fine-grained cross-modal "
            "alignment",
            role="source",
        ),
        Paper(
            arxiv_id="1803.08024",
            title="Stacked Cross Attention for Image-Text Matching",
            role="baseline",
        ),
        Paper(
            arxiv_id="2106.02034",
            title="DynamicViT: Efficient Vision Transformers with Dynamic Token Sparsification",
            role="related",
        ),
        Paper(
            arxiv_id="1611.01144",
            title="Categorical Reparameterization with Gumbel-Softmax",
            role="ancestor",
        ),
    ),
    aliases=("patch slimming", "SEPS", "LAPS", "linguistic-aware patch slimming"),
    family=Family(
        what="Matching parts of an image (patches, regions, pixels) with words or phrases: "
        "fine-grained image and text alignment, late interaction, slimming of patches by what "
        "the text says.",
        near="Retrieval between images and texts by whole vectors, composed image retrieval, "
        "search for persons by text, open-vocabulary segmentation, grounding.",
        outside="Alignment of generated images with their prompts, human-object interaction, "
        "registration of images, alignment of sensors.",
        phrases={
            "(patch|region|pixel|object|local|token|part|concept|attribute|entity|dense|"
            "location|anatom*) [level|wise] (text|word|phrase|language|textual|caption|"
            "sentence|description|attribute) (align*|match*|correspond*|contrast*|"
            "interact*|ground*)": 3,
            "fine grained [image|visual|vision] [and] (cross modal|vision language|"
            "visual text*|image text|multimodal|semantic|text|visual textual|language) "
            "(align*|match*|correspond*)": 2,
            "fine grained & (align*|match*|correspond*) & (image|visual|vision) & (text*|"
            "language|caption|word)": 1.5,
            "fine grained alignment": 1,
            "(local|region|concept|part|anatom*|patch|organ|pixel) [level|wise] (vision language|"
            "image text|visual semantic|cross modal) (align*|match*)": 3,
            "(fine grained|local*|multi grained|granularity|part level|region level|concept level|"
            "anatom*) & align* & (report|text*|language|caption|description)": 1.5,
            "(image|visual|anatom*) region & (text*|finding|report|words|description)": 1,
            "(align*|match*|similarit*|correspond*|contrast*) & (patch*|region|crop|"
            "image part|local feature|local visual|image token) & (word|phrase|text*|"
            "sentence|caption|description|report)": 2,
            "(patch|region|pixel|local) ~ (word|phrase|text|sentence|description)": 1,
            "image (text|sentence|caption) (match*|retriev*|align*)": 1,
            "vision language (align*|pre training|pretraining)": 0.7,
            "late interaction|multi vector": 2,
            "patch (slimming|selection)": 1.5,
            "global [and|to] local & align*": 1.5,
            "local* align*": 1.5,
            "region (aware|text)": 1,
            "optimal transport & (text*|language|word)": 1,
            "clip": 0.5,
            "(long|dense|detailed) caption": 1,
            "(text|phrase|attribute) based person|text to image person": 1,
        },
        against={
            "human object interaction|hand object": 3,
            "text to image (generat*|model|diffusion|synthesis)": 2,
            "composed image retrieval": 1.5,
            "diffusion model": 1.5,
            "point cloud": 1,
            "pixel aligned": 2,
            "registration": 1.5,
            "benchmark|dataset": 0.3,
            "report generation": 1,
            "open vocabulary|referring": 0.7,
            "anomaly detection": 0.7,
            "prompt (learning|tuning)": 0.5,
            "reinforcement|preference optimization": 1,
            "adversarial|attack": 1,
            "robot*|vision language action": 1.5,
            "audio|speech|eeg|brain": 1,
            "multimodal large language|mllm": 0.5,
            "visual token|token (prun*|compress*)": 0.7,
        },
    ),
    claims=(
        _gain_claim("to_text", ("seps", 86.1), 74.0, x=_TO_TEXT),
        _gain_claim("to_image", ("seps", 86.9), 62.5, x=_TO_IMAGE),
        _gain_claim("sparse_only", ("seps_sparse", 67.2), 62.5, x=_TO_IMAGE),
        _gain_claim("rsum", ("seps", 560.9), 507.3, x=None),
        _laps_claim("laps_to_text", 74.0, _TO_TEXT),
        _laps_claim("laps_to_image", 62.5, _TO_IMAGE),
    ),
    checks=(
        _check("self_test", "The source's self-test: 291 and 1,198 parameters, shapes", "exactly"),
        _check("oracle", "All pairs at once == each pair by the definition", "1e-12 in fp64"),
        _check("weights", "Aggregation weights sum to 1, dropped patches have none", "1e-12; 0"),
        _check("gradients", "Mended: every trainable learns, the choice too", "over 1e-6"),
        _check("defects", "Faithful: ratio loss and choice teach nothing", "under 1e-9; exactly 0"),
        _check("straight_through", "Forward is hard, gradient is soft's", "exactly"),
        _check("kept", "Exactly K patches stay, all of them at keep = 1", "exactly"),
        _check("batches", "A batch of 1 is a row of a batch of 8", "within 1e-5"),
        _check("padding", "Padding words never change a score", "1e-12 in fp64"),
        _check("ratio", "The mended ratio loss reaches its share", "within 0.05"),
    ),
    commands=(
        Command(name="train", params=TrainParams, entry="practice:train"),
        Command(name="evaluate", params=EvaluateParams, entry="practice:evaluate"),
    ),
    example="example:main",
    benchmarks=(
        Benchmark(
            slug="retrieval",
            title="Image–caption retrieval",
            description="Recall both ways on scenes made on the fly, after equal training: every "
            "patch, random patches, LAPS, both variants of the source, and ours with and without "
            "the dense text.",
            params=RetrievalParams,
            presets={
                "smoke": _SMOKE,
                "standard": RetrievalParams(),
                "full": _FULL,
            },
            version=3,
            entry="bench:retrieval",
        ),
        Benchmark(
            slug="ablations",
            title="What each part is worth",
            description="Slimming without merging, merging without slimming, fewer and more "
            "tokens, each half of the alignment, lambda 1 and the dense text as the query, trained "
            "alike; rSum against tokens and operations, with a margin set beforehand.",
            params=RetrievalParams,
            presets={
                "smoke": _SMOKE,
                "standard": RetrievalParams(threads=1),
                "full": _FULL,
            },
            entry="bench:ablations",
        ),
        Benchmark(
            slug="cost",
            title="Cost of the similarity",
            description="Time and memory of the similarity of all pairs at ViT-224 sizes, over "
            "batch, words and patches kept, against dense attention between words and patches.",
            params=CostParams,
            presets={
                "smoke": CostParams(
                    dim=32,
                    patches=32,
                    batches=(4,),
                    words=(8,),
                    keeps=(0.5,),
                    max_warm_up_s=0.1,
                    processes=3,
                    seconds=0,
                ),
                "standard": CostParams(),
                "full": CostParams(
                    batches=(32, 128, 512), words=(16, 32, 64, 128), blocks=9, threads=0
                ),
            },
            version=2,
            entry="bench_cost:cost",
            memory="bench_cost:cost_bytes",
        ),
    ),
)
