"""Run a command where the kernel refuses Landlock's system calls, as one older than 5.13 does.

python no_landlock.py COMMAND …
"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, JUMP_IF_AT_LEAST, JUMP_IF_ABOVE, RETURN = 0x20, 0x35, 0x25, 0x06  # of the kernel's filters
REFUSE, ALLOW = 0x00050000 | errno.ENOSYS, 0x7FFF0000
FIRST, LAST = 444, 446  # of Landlock's calls, on every architecture
FILTER = (
    (LOAD, 0, 0, 0),
    (JUMP_IF_AT_LEAST, 0, 2, FIRST),
    (JUMP_IF_ABOVE, 1, 0, LAST),
    (RETURN, 0, 0, REFUSE),
    (RETURN, 0, 0, ALLOW),
)


def refuse_landlock() -> None:
    """For this process and all that it starts; root alone may, without giving up more."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in FILTER))
    program = struct.pack("@HP", len(FILTER), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls here")


if __name__ == "__main__":
    refuse_landlock()
    os.execv(sys.argv[1], sys.argv[1:])
