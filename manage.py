#!/usr/bin/env python3
"""Assay's command line: `python3 manage.py up`, `test`, `methods …` and Django's commands.

Any command takes `--data DIR`, the directory everything is kept in.
"""

import argparse
import os
import sys
from contextlib import redirect_stdout

if sys.version_info < (3, 11):  # before any import that an older Python could not read
    sys.exit(
        "Assay needs Python 3.11 or newer; this is %d.%d.\n"
        "Run it with a newer one, for instance: python3.11 manage.py up" % sys.version_info[:2]
    )

import bootstrap

# The groups of requirements/ that a command needs; all others need only the site's.
GROUPS = {
    "up": ("web", "redis"),
    "mcp": ("web", "mcp"),
    "methods": ("web", "ml", "torch"),
    "test": ("web", "redis", "ml", "torch", "triton", "mcp", "dev"),
}
FAST = ("web", "redis", "mcp", "dev")  # `test --fast`, and tests that need no more
# Commands that write nothing: they neither make a data directory nor close one to others.
LEAVE_DATA = {"check", "diffsettings", "doctor", "findstatic", "help", "showmigrations"}
LEAVE_DATA |= {"sqlmigrate", "translations"}
# Those that need no migrated database: they migrate or replace it themselves, or do not use it.
LEAVE_DATABASE = LEAVE_DATA | {"backup", "collectstatic", "makemigrations", "restore"}
LEAVE_DATABASE |= {"squashmigrations"}


def main() -> int:
    """Run one of Assay's or Django's commands; the exit status."""
    command, arguments = command_line(sys.argv[1:])
    try:
        # The standard output of other commands is theirs alone: JSON lines, a link, a protocol.
        with redirect_stdout(sys.stdout if command in {"up", "test"} else sys.stderr):
            bootstrap.enter(groups(command, arguments))
    except bootstrap.BootstrapError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the same command again: what is installed stays.")
    if command in {"version", "--version"}:
        from assay_common import __version__

        print(f"Assay {__version__}")
        return 0
    if command == "methods":
        from methods.__main__ import main as methods

        return methods(arguments)
    if command == "test":
        from tests.run import main as test

        return test(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    if command == "up":
        from workers.up.command import main as up

        return up(arguments)
    return django(command, arguments)


def groups(command: str, arguments: list[str]) -> tuple[str, ...]:
    """The groups of requirements/ that a command needs."""
    if command == "test":
        from tests import fast

        if "--models" in arguments:
            return ("web", "ml", "torch", "dev", "llama", "smollm2")
        named = fast.named(arguments)
        if "--fast" in arguments or (named and not fast.need_torch(named)):
            return FAST
    if command == "up" and any(argument.startswith("--model") for argument in arguments):
        return (*GROUPS["up"], "llama")
    return GROUPS.get(command, ("web",))


def command_line(arguments: list[str]) -> tuple[str, list[str]]:
    """The command and its arguments; `--data DIR` goes into ASSAY_DATA on the way."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data", metavar="DIR", nargs="?", const="")
    options, rest = parser.parse_known_args(arguments)
    if options.data is not None:
        if not options.data:
            sys.exit("--data needs a directory.")
        os.environ["ASSAY_DATA"] = os.path.abspath(os.path.expanduser(options.data))  # noqa: PTH100, PTH111
    return (rest[0], rest[1:]) if rest else ("help", [])


def leaves_database(command: str, arguments: list[str]) -> bool:
    """True for a command that the database need not be up to date for.

    A whole `migrate` is an upgrade like that before any command; of one app it is Django's own.
    """
    if command != "migrate":
        return command in LEAVE_DATABASE
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--no-input", "--noinput", action="store_true")
    parser.add_argument("-v", "--verbosity")
    return bool(parser.parse_known_args(arguments)[1])


def django(command: str, arguments: list[str]) -> int:
    """Run a Django command on a database that is up to date."""
    import django
    from django.core.management import BaseCommand, execute_from_command_line

    from assay_common.env import SettingError, data_directory

    # They load every page, which takes as long as most commands do; the tests run them.
    BaseCommand.requires_system_checks = ()

    try:
        django.setup()
        is_help = bool({"-h", "--help"} & set(arguments))
        if command in LEAVE_DATA or is_help:
            from django.db import connection

            connection.only_reads = True  # type: ignore[attr-defined]
        else:
            from webapp.ui.translations import compile_catalogues

            data_directory()
            compile_catalogues()
        if not (leaves_database(command, arguments) or is_help):
            from webapp.core.database import DatabaseError
            from webapp.operate.upgrade import upgrade

            try:
                saved = upgrade()
                if saved:
                    print(f"The database was upgraded; {saved} is an archive of it before.")
            except DatabaseError as error:
                sys.exit(str(error))
    except SettingError as error:
        sys.exit(f"Setting {error}")
    try:
        execute_from_command_line([sys.argv[0], command, *arguments])
    except django.db.Error as error:
        from webapp.core.database import REASONS, database_trouble

        trouble = database_trouble(error)
        if trouble:
            sys.exit(f"{REASONS[trouble]}: {error}. What was not finished was not changed.")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
