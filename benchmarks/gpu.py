"""One command for a borrowed GPU: ``python -m benchmarks.gpu --minutes 10 --out DIR``.

Runs in the order of worth: the checks of all methods on the device, at once since they time
nothing, then decoding, prompts and videos by every selector, grouped heads over length, token
pruning's prefill and concept decoding. Each part is a process of its own with its own deadline, and
its result is written as soon as it comes, so that whatever was reached when the time is up remains:
`DIR/PART.jsonl` (events), `DIR/PART.log` (what it said) and `DIR/summary.json` (which parts ended
how, after how long).

The machine needs Python 3.12, torch, triton, transformers, numpy, peft and rich; pydantic
and psutil are carried as wheels where it lacks them (``--wheels DIR``, made by
``pip download --only-binary :all: --python-version 3.12 -d DIR pydantic psutil``, and with
``--no-deps`` local-attention and hyper-connections for `latency`).
``--tiny`` tries every part at the smallest sizes, as the tests do on a CPU.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
METHODS = ("sparse_attention", "token_pruning", "concept_lm", "seps")


@dataclass(frozen=True)
class Part:
    """One process: `python -m methods` with these arguments, for so many seconds at most."""

    name: str
    arguments: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Ended:
    """The end of a part: done, failed (its exit code), or stopped at its deadline."""

    name: str
    how: str
    seconds: float


def settings(values: dict[str, object]) -> Iterator[str]:
    """Yield settings as arguments of the command line."""
    for name, value in values.items():
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        yield from ("--set", f"{name}={shown}")


def parts(device: str, *, tiny: bool) -> Iterator[Part]:
    """All parts in the order of their worth."""
    for method in METHODS:
        yield Part(f"check-{method}", ("check", method, "--device", device), 150)
    lengths = (8192, 32768, 131072)
    steps: list[tuple[str, str, dict[str, object], float]] = [
        ("decode", "sparse_attention.decode", {"lengths": lengths[1:]}, 90),
        ("prefill", "sparse_attention.prefill", {"lengths": lengths[:2], "frames": (32,)}, 90),
        ("decode-batch", "sparse_attention.decode", {"lengths": lengths[1:], "batch": 8}, 90),
        ("latency", "sparse_attention.latency", {"lengths": lengths[:2], "batch": 1}, 90),
        ("pruning", "token_pruning.latency", {}, 90),
        ("concepts", "concept_lm.decode", {"contexts": 1024, "tokens_per_concept": 4}, 60),
    ]
    few: dict[str, object] = {"seconds": 45, "processes": 3, "max_warm_up_s": 0.1}
    for name, benchmark, values, seconds in steps:
        chosen = {} if tiny else few | values
        preset = "smoke" if tiny else "full"
        yield Part(
            name,
            ("run", benchmark, "--preset", preset, "--device", device, *settings(chosen)),
            seconds,
        )


def run(part: Part, out: Path, left: float, environment: dict[str, str]) -> Ended:
    """Run one part, at most until the whole time is up; it does not outlive its deadline."""
    begun, lines = time.monotonic(), ["--json", str(out / f"{part.name}.jsonl")]
    arguments = [*part.arguments, *(lines if part.arguments[0] == "run" else [])]
    with (out / f"{part.name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "methods", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(min(part.seconds, left))
            how = "done" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            how = "stopped at its deadline"
            os.killpg(process.pid, signal.SIGTERM)  # a run ends with what it has
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Ended(part.name, how, round(time.monotonic() - begun, 1))


def carried(wheels: Path | None, into: Path) -> dict[str, str]:
    """The environment of the parts, with the wheels' packages where there are some."""
    if wheels is None:
        return dict(os.environ)
    for wheel in sorted(wheels.glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(into)
    path = os.pathsep.join(filter(None, (str(into), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what fits into the time; 0 if every part that was to run is done."""
    reading = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    reading.add_argument("--minutes", type=float, default=10, help="for all parts together")
    reading.add_argument("--out", type=Path, required=True, help="a folder for the results")
    reading.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    reading.add_argument("--wheels", type=Path, help="a folder of wheels that the machine lacks")
    reading.add_argument("--tiny", action="store_true", help="every part at the smallest sizes")
    reading.add_argument("--only", nargs="*", default=[], help="names of parts")
    args = reading.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    environment = carried(args.wheels, args.out / "packages")
    until, ended = time.monotonic() + 60 * args.minutes, list[Ended]()

    def begin(part: Part) -> None:
        left = until - time.monotonic()
        if left < 5:
            ending = Ended(part.name, "not begun: the time was up", 0.0)
        else:
            ending = run(part, args.out.resolve(), left, environment)
        print(f"{ending.name}: {ending.how}, {ending.seconds:.0f} s", flush=True)
        ended.append(ending)
        summary = json.dumps([asdict(part) for part in ended], indent=1)
        (args.out / "summary.json").write_text(summary)

    wanted = parts(args.device, tiny=args.tiny)
    chosen = [part for part in wanted if not args.only or part.name in args.only]
    checks = [part for part in chosen if part.arguments[0] == "check"]
    with ThreadPoolExecutor(len(METHODS) if args.device == "cuda" else 1) as together:
        list(together.map(begin, checks))
    for part in chosen[len(checks) :]:
        begin(part)
    return int(any(part.how != "done" for part in ended))


if __name__ == "__main__":
    sys.exit(main())
