"""The kernel's wall around the process of an SQL job: it writes below one folder only, and starts no programs.

By Landlock, which Linux has since 5.13 and which needs no rights. Where there is none (`only_write_below` answers False), what
DuckDB itself refuses is the only wall; see `sql.engine`. Reading stays: drivers and the resolver read here and there.
"""

import ctypes
import os
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVS = 38

_EXECUTE = 1 << 0
_WRITE = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8  # files, and to remove or make files and folders
_MAKE_OTHERS = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12  # devices, sockets, pipes, links
_TRUNCATE = 1 << 14  # from version 3 on


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def only_write_below(folder: Path) -> bool:
    """For this thread and those that it starts, for good. False: this kernel cannot."""
    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    write = _WRITE | (_TRUNCATE if version >= 3 else 0)
    handled = ctypes.c_uint64(_EXECUTE | write | _MAKE_OTHERS)
    rules = _checked(kernel.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0))
    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    _checked(kernel.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(_Beneath(write, place)), 0))
    _checked(kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(kernel.syscall(_RESTRICT_SELF, rules, 0))
    os.close(place)
    os.close(rules)
    return True


def _checked(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
