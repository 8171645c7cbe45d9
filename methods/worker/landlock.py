"""Restricts a process to writing in one directory and signalling its own processes (Landlock).

The restriction holds for the process and all that it starts, also for root. Reading is left to file
permissions. Only the standard library is used: the reaper calls this between fork and exec.

Reference: https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import struct
from pathlib import Path

from assay_common.parent_death import prctl

PR_SET_NO_NEW_PRIVS = 38
# The same numbers on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION = 1
PATH_BENEATH = 1

WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
# Removing (bits 4 and 5) and making (6 to 12) whatever a directory can hold.
CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
SCOPE_SIGNALS = 1 << 1
SINCE = {REFER: 2, TRUNCATE: 3}  # versions of Landlock
SCOPES_SINCE = 6

# Devices that store nothing, and those that a GPU's driver opens.
DEVICES = ("null", "zero", "full", "tty", "nvidia*", "nvidia-caps/*", "dri/*", "kfd")


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is disabled."""
    try:
        return _call(CREATE_RULESET, None, 0, GET_VERSION)
    except (OSError, AttributeError):
        return 0


def restrict_writing(folder: Path) -> None:
    """Allow writing only in `folder` from now on; do nothing without Landlock.

    Raises OSError.
    """
    supported = version()
    if not supported:
        return
    in_files = sum(r for r in (WRITE_FILE, TRUNCATE) if SINCE.get(r, 1) <= supported)
    everything = in_files | CHANGE_DIRECTORY | (REFER if SINCE[REFER] <= supported else 0)
    scoped = struct.pack("=QQ", 0, SCOPE_SIGNALS) if supported >= SCOPES_SINCE else b""
    attributes = struct.pack("=Q", everything) + scoped
    rules = _call(CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(rules, folder, everything)
        for pattern in DEVICES:
            for device in filter(Path.is_char_device, Path("/dev").glob(pattern)):
                _allow(rules, device, in_files)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0)
    finally:
        os.close(beneath)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call. Raises OSError."""
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *values)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(answer)
