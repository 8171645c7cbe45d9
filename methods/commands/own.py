"""``train``, ``evaluate``, ``generate``: a method on real data, where it says that it can."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from methods import registry
from methods.commands.run import settings
from methods.errors import InputError
from methods.protocol import Progress
from methods.terminal import ProgressBar


@dataclass(frozen=True)
class Own:
    """A subcommand that runs the method's own entry of this name."""

    name: str
    help: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the method, its parameters and the device."""
        parser.add_argument("method", metavar="METHOD")
        parser.add_argument(
            "--set",
            metavar="K=V",
            action="append",
            default=[],
            help="a parameter, such as model=PATH",
        )
        parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")

    def main(self, args: argparse.Namespace) -> int:
        """Run the entry."""
        return perform(self.name, args)


OWN = (
    Own("train", "train a method on data of your own"),
    Own("evaluate", "judge what was trained on data of your own"),
    Own("generate", "write with what was trained"),
)


def perform(name: str, args: argparse.Namespace) -> int:
    """Do what the method's command of this name does, with progress; 0."""
    method = registry.get(args.method)
    found = next((command for command in method.commands if command.name == name), None)
    if found is None:
        able = ", ".join(
            one.slug
            for one in registry.all_methods()
            if any(command.name == name for command in one.commands)
        )
        raise InputError(f"{method.slug} has no {name!r}; methods that have: {able or 'none'}")
    params = found.resolve(settings(args.set))
    from methods.runner import choose_device  # noqa: PLC0415 - imports torch

    work = registry.load(method.slug, found.entry)
    told = work(params, choose_device(args.device), _progress())
    sys.stdout.write(told.rstrip() + "\n")
    return 0


def _progress() -> Callable[[float, float, str], None]:
    bar, begun = ProgressBar(), time.monotonic()

    def tell(done: float, total: float, message: str) -> None:
        bar.show(Progress.at(min(1.0, done / total), message, time.monotonic() - begun))
        if done >= total:
            bar.clear()

    return tell
