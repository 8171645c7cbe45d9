"""``train``: train a method on real data."""

from __future__ import annotations

import argparse

from methods.commands import own

HELP = "train a method on data of your own"
configure = own.configure


def main(args: argparse.Namespace) -> int:
    """Run the method's own entry."""
    return own.perform("train", args)
