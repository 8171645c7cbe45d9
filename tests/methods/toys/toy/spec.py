"""The specification of the toy."""

from methods.spec import Benchmark, Check, Method, Params, TimedParams, parameter


class ToyParams(Params):
    n: int = parameter(4, help="how many", unit="things", ge=1, le=64)


class TimedToyParams(TimedParams):
    how: str = parameter("well", help="how its processes end", max_length=20)


def timed() -> Benchmark:
    least = TimedToyParams(processes=3, seconds=0)
    return Benchmark(
        slug="timed",
        title="timed",
        description="A run in several processes.",
        params=TimedToyParams,
        presets={"smoke": least, "full": TimedToyParams()},
        entry="bench:timed",
    )


def benchmark(slug: str, **more: object) -> Benchmark:
    return Benchmark(
        slug=slug,
        title=slug,
        description=f"A run that is {slug}.",
        params=ToyParams,
        presets={"smoke": ToyParams(n=2), "full": ToyParams()},
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
        benchmark("late"),
        benchmark("hungry", memory="bench:petabyte"),
        timed(),
        benchmark("gpu_only", devices=("cuda",)),
    ),
)
