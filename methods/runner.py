"""Runs one benchmark and reports it: checks of the input, measurement, series, and how it ended.

The order is the point: parameters and memory are refused before anything is allocated, series are
shown only after the last check has passed, and whatever ends a run early marks what had been
measured as partial, or, if a check failed, shows none of it.
"""

import random
import sys
import time
import traceback

import numpy as np

from assay_common.text import clean, one_line

from . import registry
from .context import Context, Device, Emit
from .errors import InputError, MethodsError
from .interrupts import Interruptible
from .measure import environment, processes
from .protocol import Cancelled, Failed, Result, Started, Strict
from .spec import Benchmark, Method, Params, TimedParams

EXIT_OK, EXIT_CHECK, EXIT_INPUT, EXIT_ERROR, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
EXIT_OF = {"check": EXIT_CHECK, "input": EXIT_INPUT, "memory": EXIT_INPUT}


def choose_device(asked: str, offered: tuple[str, ...] = ("cpu", "cuda")) -> Device:
    """The device for ``auto``, ``cpu`` or ``cuda``; raises InputError."""
    if asked not in ("auto", *offered):
        devices = " or ".join(offered)
        raise InputError(f"this runs on {devices} only, not on {asked[:40]!r}")
    if asked == "cpu" or "cuda" not in offered:
        return "cpu"
    import torch  # noqa: PLC0415 - not every benchmark needs it, and it takes seconds

    if torch.cuda.is_available():
        return "cuda"
    if asked == "cuda":
        raise InputError("torch sees no CUDA device here; use --device cpu or auto")
    if "cpu" not in offered:
        raise InputError("this needs a GPU and torch sees none on this machine")
    return "cpu"


def seed_everything(seed: int) -> None:
    """Seed python's, numpy's and, where it is loaded, torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def prepare(method: Method, benchmark: Benchmark, params: Params, asked: str) -> Device:
    """The device to run on, once the run is known to fit there; raises InputError."""
    device = choose_device(asked, benchmark.devices)
    if benchmark.memory:
        from .measure import memory  # noqa: PLC0415 - imports torch

        memory.require(registry.load(method.slug, benchmark.memory)(params, device), device)
    return device


def run(
    method: Method,
    benchmark: Benchmark,
    params: Params,
    *,
    device: Device,
    seed: int,
    preset: str | None,
    emit: Emit,
    process: int | None = None,
) -> int:
    """Run the benchmark and pass every event to ``emit`` in order; returns the exit code.

    A benchmark of time runs in fresh processes, any other here; so does each such ``process``, by
    its number: checks are run by the first. The last event is always one of result, failed and
    cancelled. Runs in the main thread, where it takes Ctrl-C and TERM for itself.
    """
    begun, measured = time.monotonic(), processes.Measured(0, "")
    interrupts = Interruptible()

    def emit_whole(body: Strict) -> None:
        with interrupts.held():
            emit(body)

    context = Context(device, seed, emit_whole, repeated=bool(process))
    with interrupts:
        try:
            emit_whole(_started(method, benchmark, params, preset, context))
            since = environment.CpuTimes.now()
            if process is None and isinstance(params, TimedParams):
                slug = benchmark.slug
                asked = [c for c in method.claims if c.answer and c.answer.benchmark == slug]
                name = f"{method.slug}.{benchmark.slug}"
                measured = processes.measure(context, name, params, asked)
            else:
                _run_here(method, benchmark, params, context)
            series = context.release(partial=False)
            if not series:
                raise RuntimeError("the benchmark ended without having measured anything")
            interrupts.ignore()  # what comes now is short, and half of it would be a broken record
        except (Exception, KeyboardInterrupt) as error:
            interrupts.ignore()
            return _end_early(error, context, emit)
        result = Result(
            duration=time.monotonic() - begun,
            checks=context.checks,
            series=tuple(one.name for one in series),
            artefacts=context.artefacts,
            after=environment.machine_state(device, since),
            processes=measured.processes,
            stopped=measured.stopped,
        )
        for body in (*series, result):
            emit(body)
    return EXIT_OK


def _run_here(method: Method, benchmark: Benchmark, params: Params, context: Context) -> None:
    """Run the benchmark in this process."""
    entry = registry.load(method.slug, benchmark.entry)
    with_torch = "torch" in sys.modules
    seed_everything(context.seed)
    entry(context, params)
    if not with_torch and "torch" in sys.modules:
        raise RuntimeError(
            "the benchmark imported torch while it ran, too late for its seed: "
            "import torch at the head of its module"
        )


def _started(
    method: Method, benchmark: Benchmark, params: Params, preset: str | None, context: Context
) -> Started:
    """Describe the run and its machine, after loading the benchmark (and torch, if it needs it)."""
    registry.load(method.slug, benchmark.entry)
    # At smoke tensors are so small that threads would only wait for each other.
    small = preset == "smoke" and context.device == "cpu"
    if (threads := getattr(params, "threads", int(small))) and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)  # before the environment records them
    elif "torch" in sys.modules and sys.modules["torch"].get_num_threads() > environment.cores():
        sys.modules["torch"].set_num_threads(
            environment.cores()
        )  # a container's quota would stop the others
    return Started(
        method=method.slug,
        benchmark=benchmark.slug,
        version=benchmark.version,
        preset=preset,
        params=params.model_dump(mode="json"),
        seed=context.seed,
        device=context.device,
        environment=environment.collect(context.device),
        at=time.time(),
    )


def _end_early(error: BaseException, context: Context, emit: Emit) -> int:
    """Report how the run ended and, unless a check failed, what it had measured, marked partial."""
    if isinstance(error, KeyboardInterrupt):
        emit(Cancelled(reason="interrupted", partial=_emit_partial_series(context, emit)))
        return EXIT_INTERRUPTED
    failed = error.body if isinstance(error, processes.ProcessFailedError) else _failed(error)
    partial = failed.kind != "check" and _emit_partial_series(context, emit)
    emit(failed.model_copy(update={"partial": partial}))
    return EXIT_OF.get(failed.kind, EXIT_ERROR)


def _emit_partial_series(context: Context, emit: Emit) -> bool:
    """Show what was measured before the run ended early; whether there was anything."""
    series = context.release(partial=True)
    for one in series:
        emit(one)
    return bool(series)


def _failed(error: BaseException) -> Failed:
    """An error in words, with its traceback where nobody has foreseen it."""
    message = clean(str(error)) or type(error).__name__
    if isinstance(error, MethodsError):
        return Failed(kind=error.kind, message=message[:2_000])
    out_of_memory = getattr(sys.modules.get("torch"), "OutOfMemoryError", MemoryError)
    # torch's CPU allocator has no class of its own for this.
    refused = isinstance(error, RuntimeError) and "can't allocate memory" in message
    if refused or isinstance(error, (MemoryError, out_of_memory)):
        return Failed(kind="memory", message=message[:2_000])
    message = f"{type(error).__name__}: {one_line(message)}"
    detail = clean("".join(traceback.format_exception(error)))
    return Failed(kind="error", message=message[:2_000], detail=detail[-8_000:])
