"""``train``, ``evaluate``, ``generate``: a method on your own data, where it supports that."""

import argparse
import sys

from .. import registry
from ..errors import InputError
from ..params import resolve
from ..terminal import ProgressBar
from .run import settings

OWN = {
    "train": "train a method on data of your own",
    "evaluate": "judge what was trained on data of your own",
    "generate": "write with what was trained",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method, its parameters and the device."""
    parser.add_argument("method", metavar="METHOD")
    what = "a parameter, such as model=PATH"
    parser.add_argument("--set", metavar="K=V", action="append", default=[], help=what)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def main(args: argparse.Namespace) -> int:
    """Run the method's own entry of the command's name, with progress; 0."""
    able = {
        method.slug: command
        for method in registry.all_methods()
        for command in method.commands
        if command.name == args.command
    }
    slug = registry.get(args.method).slug
    if slug not in able:
        others = ", ".join(able) or "none"
        raise InputError(f"{slug} has no {args.command!r}; methods that have: {others}")
    params = resolve(able[slug].params, settings(args.set), {})
    from ..runner import choose_device  # noqa: PLC0415 - imports torch

    work = registry.load(slug, able[slug].entry)
    result = work(params, choose_device(args.device), ProgressBar().update)
    sys.stdout.write(result.rstrip() + "\n")
    return 0
