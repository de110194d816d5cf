"""What a warm interpreter runs until it gets its work: text for `python3 -c`, in the sandbox, by the machine's own Python.

It is given a socket, and says `r` when it is ready. Then come the program's three streams as descriptors, a length, and JSON of
that length: command, environment, limits. It answers `t` for taken. From there on it is as if Python had been started with that
command: same arguments, path, `__main__` and tracebacks.
Nothing here imports Mainspring, which is not in the sandbox.
"""

import json
import os
import resource
import runpy
import socket
import sys
import types
from typing import Any


def wait(fd: int) -> None:
    connection = socket.socket(fileno=fd)
    connection.sendall(b"r")
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    if len(streams) != 3:
        os._exit(0)  # nobody wants us any more
    data = b""
    while len(data) < int(head):
        data += connection.recv(65536)
    connection.sendall(b"t")
    connection.close()
    order = json.loads(data)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["env"])
    for name, limit in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    run(*order["command"][1:])


def run(first: str, *rest: str) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if first == "-m":
        sys.argv = ["-m", *rest[1:]]
        sys.path[0] = os.getcwd()
        call(runpy._run_module_as_main, rest[0])  # type: ignore[attr-defined]
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        call(execute, rest[0] + "\n", "<string>", main.__dict__)
    else:
        sys.argv = [first, *rest]
        sys.path[0] = os.path.dirname(os.path.realpath(first))
        main.__dict__["__file__"] = os.path.join(os.getcwd(), first)
        call(execute, source(first), main.__dict__["__file__"], main.__dict__)


def source(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file '{os.path.abspath(file)}': [Errno {error.errno}] {error.strerror}\n"
        )
        sys.exit(2)


def execute(code: "str | bytes", name: str, namespace: "dict[str, Any]") -> None:
    exec(compile(code, name, "exec", dont_inherit=True), namespace)


def call(function: Any, *args: Any) -> None:
    try:
        function(*args)
    except SystemExit:
        raise
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals is globals():
            frames = frames.tb_next  # ours are nobody's business
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        sys.exit(1)
