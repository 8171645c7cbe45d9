"""``evaluate``: judge a trained method on real data."""

from __future__ import annotations

import argparse

from methods.commands import own

HELP = "judge what was trained on data of your own"
configure = own.configure


def main(args: argparse.Namespace) -> int:
    """Run the method's own entry."""
    return own.perform("evaluate", args)
