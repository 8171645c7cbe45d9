"""What the toy says of itself."""

from methods.spec import Benchmark, Check, Method, Params, parameter


class ToyParams(Params):
    n: int = parameter(4, help="how many", unit="things", ge=1, le=64)


def benchmark(slug: str, **more: object) -> Benchmark:
    return Benchmark(
        slug=slug,
        title=slug,
        description=f"A run that is {slug}.",
        params=ToyParams,
        presets={"smoke": ToyParams(n=2), "standard": ToyParams(), "full": ToyParams(n=64)},
        entry=f"bench:{slug}",
        **more,
    )


METHOD = Method(
    slug="toy",
    title="A toy",
    description="Ends in every way.",
    checks=(
        Check(name="sums", title="1 + 1 == 2", bound="exact", entry="checks:sums"),
        Check(name="broken", title="raises", bound="none", entry="checks:broken"),
        Check(name="empty", title="yields nothing", bound="none", entry="checks:empty"),
        Check(name="wrong", title="one of three misses", bound="1", entry="checks:wrong"),
    ),
    benchmarks=(
        benchmark("right"),
        benchmark("wrong"),
        benchmark("raising"),
        benchmark("unchecked"),
        benchmark("silent"),
        benchmark("endless"),
        benchmark("exhausted"),
        benchmark("hungry", memory="bench:petabyte"),
        benchmark("gpu_only", devices=("cuda",)),
    ),
)
