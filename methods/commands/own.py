"""``train``, ``evaluate``, ``generate``: a method on real data, where it says that it can."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from methods import registry
from methods.commands.run import settings
from methods.errors import InputError
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
        """Run the entry, with progress; 0."""
        able = {
            method.slug: command
            for method in registry.all_methods()
            for command in method.commands
            if command.name == self.name
        }
        slug = registry.get(args.method).slug
        if slug not in able:
            others = ", ".join(able) or "none"
            raise InputError(f"{slug} has no {self.name!r}; methods that have: {others}")
        params = able[slug].resolve(settings(args.set))
        from methods.runner import choose_device  # noqa: PLC0415 - imports torch

        work = registry.load(slug, able[slug].entry)
        told = work(params, choose_device(args.device), ProgressBar().tell)
        sys.stdout.write(told.rstrip() + "\n")
        return 0


OWN = (
    Own("train", "train a method on data of your own"),
    Own("evaluate", "judge what was trained on data of your own"),
    Own("generate", "write with what was trained"),
)
