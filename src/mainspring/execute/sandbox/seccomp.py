"""What a sandboxed program may not ask of the kernel: a filter of system calls.

A list of what is refused, not of what is allowed: programs of any kind run here, and what namespaces and missing capabilities
stop already need not be stopped twice. Refused is what looks into or steers other processes, makes namespaces (in which a program
would have capabilities again, and with them the kernel's less trodden paths), changes the machine, is not separated by any
namespace (keys, vsock), or has been the way out too often (bpf, io_uring, userfaultfd). A program of another architecture
than the machine's own is killed.
"""

import errno
import os
from functools import cache

REFUSED = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    add_key keyctl request_key
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    unshare setns name_to_handle_at open_by_handle_at fanotify_init
    init_module finit_module delete_module kexec_load kexec_file_load reboot
    swapon swapoff acct quotactl quotactl_fd syslog vhangup
    settimeofday clock_settime clock_settime64 clock_adjtime clock_adjtime64 adjtimex stime
    iopl ioperm modify_ldt vm86 vm86old lookup_dcookie nfsservctl uselib
""".split()  # noqa: SIM905
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # CLONE_NEW*
TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX put words into a terminal's mouth
_FAMILIES = (1, 2, 10, 16)  # of sockets: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_KNOWN_FAMILIES = 46
_LOW_HALF = 0xFFFFFFFF


@cache
def filter_program() -> bytes:
    """For bubblewrap's --seccomp. ImportError, or RuntimeError without libseccomp."""
    import pyseccomp

    refuse = pyseccomp.ERRNO(errno.EPERM)
    made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in REFUSED:
        _add(made, refuse, name)
    # The flags of clone3 are in memory, where a filter cannot look: libraries take this answer for "use clone".
    _add(made, pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in NAMESPACES:
        _add(made, refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in TERMINAL:
        _add(made, refuse, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _LOW_HALF, request))
    for family in set(range(_KNOWN_FAMILIES)) - set(_FAMILIES):
        _add(made, refuse, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    _add(made, refuse, "socket", pyseccomp.Arg(0, pyseccomp.GE, _KNOWN_FAMILIES))
    return _exported(made)


def _add(made: object, action: int, name: str, *arguments: object) -> None:
    import pyseccomp

    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:  # else newer than this libseccomp, or not one of this architecture
        made.add_rule(action, number, *arguments)  # type: ignore[attr-defined]


def _exported(made: object) -> bytes:
    with open(os.memfd_create("seccomp"), "w+b", buffering=0) as file:
        made.export_bpf(file)  # type: ignore[attr-defined]
        file.seek(0)
        return file.read()
