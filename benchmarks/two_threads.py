"""What the distance of two cores does to attention on two threads.

    python -m benchmarks.two_threads --seconds 60

A large copy tells how far the cores stand from each other: cores that share a cache share its
bandwidth, too. Beside it, in every row: dense attention and ours at 1,024 tokens, on all threads
and on one. Rows are medians in milliseconds; run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from methods.sparse_attention import peers
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.config import SparseAttentionConfig

CALLS = 9


def median_ms(call: Callable[[], object]) -> float:
    """The median of a few calls, in milliseconds."""
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


@torch.no_grad()
def main() -> None:
    """Print a row every second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    end = time.monotonic() + parser.parse_args().seconds
    config = SparseAttentionConfig()
    q, k, v = (torch.randn(1, config.heads, 1024, 64) for _ in "qkv")
    source = torch.randn(8_000_000)
    target = torch.empty_like(source)
    threads = torch.get_num_threads()
    print(f"{'copy':>6}  dense x {threads}  ours x {threads}  dense x 1  ours x 1   (ms)")
    while time.monotonic() < end:
        torch.set_num_threads(threads)
        copy = median_ms(lambda: target.copy_(source))
        found = []
        for used in (threads, 1):
            torch.set_num_threads(used)
            found.append(median_ms(lambda: peers.dense(q, k, v)))
            found.append(median_ms(lambda: sparse_attention(q, k, v, config)))
        print(f"{copy:6.2f}  " + "  ".join(f"{one:9.1f}" for one in found), flush=True)


if __name__ == "__main__":
    main()
