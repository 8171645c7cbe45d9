"""``python -m methods``: list, describe, check, run, read, train and begin reference methods.

Exit codes: 0 all went well; 1 a correctness check failed (no number is shown); 2 the input is
wrong: an unknown name, a parameter out of bounds, no such device, too little memory; 3 a benchmark
raised an error; 130 interrupted, with what was measured so far marked partial.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from . import registry
from .commands import check, describe, new, own, read, run, worker
from .commands import list as list_command
from .errors import InputError, MethodsError

PROGRAM = registry.PACKAGE.replace("_", "-")  # methods here, assay-methods where it is installed
# What an installed distribution may lack, and the extra that brings it.
EXTRAS = dict.fromkeys(("torch", "numpy"), "torch")
EXTRAS |= dict.fromkeys(("transformers", "peft", "PIL", "local_attention"), "hf")
MODULES = (list_command, describe, check, run, read, new, worker)
COMMANDS: dict[str, ModuleType] = {
    **{module.__name__.rpartition(".")[2]: module for module in MODULES},
    **dict.fromkeys(own.OWN, own),
}


def parser() -> argparse.ArgumentParser:
    """The command line's grammar: one subparser for each module in ``COMMANDS``."""
    about, _, exit_codes = __doc__.partition("\n\n")
    top = argparse.ArgumentParser(prog=PROGRAM, description=about, epilog=exit_codes)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        help_text = own.OWN.get(name) or module.HELP
        module.configure(commands.add_parser(name, help=help_text, description=module.__doc__))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors go to standard error."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:  # argparse: 0 after help, 2 after wrong usage, already reported
        return int(stop.code or 0)
    try:
        return int(COMMANDS[args.command].main(args))
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # nobody reads our output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 130
    except Exception as error:
        return _explained(error)


def _explained(error: Exception) -> int:
    """Say on standard error what went wrong; the exit code."""
    if isinstance(error, MethodsError):
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        wanted = f'pip install "assay-methods[{EXTRAS[error.name]}]"'
        print(f"{PROGRAM}: this needs {error.name}: {wanted}", file=sys.stderr)
        return InputError.exit_code
    traceback.print_exception(error)  # a bug of ours or of a method; 1 would mean a failed check
    return 3


if __name__ == "__main__":
    sys.exit(main())
