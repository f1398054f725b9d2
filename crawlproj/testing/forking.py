"""A program that has imported what others wrote, and forks for each command: see `preloaded`.

    python forking.py SOCKET

listens on SOCKET, a file descriptor, and ends with its standard input. Each connection brings one command:
a JSON object after its length, {"module": "scrapy", "args": [...], "env": {...}, "folder": "..."}, and with
it three file descriptors. It is answered with the pid, and at its end with the exit code. Nothing of the
project is imported here: each command does that itself, as it reads its environment and its settings.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from typing import Any, TextIO

NUMBER = struct.Struct("!i")  #: how a length, a pid and an exit code are sent
STREAMS = 3

#: What a command would spend most of its start on. None of them installs a reactor.
_SLOW = (
    "scrapy.cmdline", "scrapy.commands.bench", "scrapy.commands.check", "scrapy.commands.parse",
    "scrapy.downloadermiddlewares.cookies", "scrapy.extensions.feedexport", "scrapy.extensions.telnet",
    "scrapy_redis.scheduler", "twisted.internet.asyncioreactor", "twisted.internet.ssl", "ada_url", "fsspec",
    "hiredis", "lxml.html", "protego", "psycopg", "pycurl", "redis.asyncio.cluster", "resiliparse.parse.html",
    "rich.live", "rich.table", "selectolax.lexbor", "tldextract", "zstandard",
)  # fmt: skip


def serve(listener: socket.socket, owner: int) -> tuple[dict[str, Any], list[int]]:
    """Fork for each connection, and return in the new process; end when *owner* has come to its end."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by what says that a process has ended
    while True:
        ready, _, _ = select.select([listener.fileno(), owner, *running], [], [])
        if owner in ready:
            sys.exit()
        for ended in running.keys() & set(ready):
            pid, connection = running.pop(ended)
            os.close(ended)
            _tell(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            connection.close()
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            request, streams = _received(connection)
            pid = os.fork()
            if not pid:
                for each in (listener, connection, *(other for _, other in running.values())):
                    each.close()
                for number in running:
                    os.close(number)
                return request, streams
            for stream in streams:
                os.close(stream)
            running[os.pidfd_open(pid)] = pid, connection
            _tell(connection, pid)


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Take on the folder, environment, arguments and streams of a command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    buffering = 0 if request["env"].get("PYTHONUNBUFFERED") else -1
    # Those of the program remember what kind of file they were opened for.
    sys.stdout = sys.__stdout__ = _writing(sys.stdout, buffering)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writing(sys.stderr, buffering)  # type: ignore[misc]
    folder, env = request["folder"], request["env"]
    os.chdir(folder)
    given, sys.path[:] = _listed(os.environ), sys.path[1:]  # the first is the folder of this file
    sys.path[:] = [folder, *_listed(env), *(path for path in sys.path if path not in given)]
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = [request["module"], *request["args"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _writing(stream: TextIO, buffering: int) -> io.TextIOWrapper:
    binary: Any = open(stream.fileno(), "wb", buffering, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        stream.encoding,
        stream.errors,
        line_buffering=stream is sys.stderr,
        write_through=buffering == 0,
    )


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, streams, _, _ = socket.recv_fds(connection, NUMBER.size, STREAMS)
    data, size = b"", NUMBER.unpack(head)[0]
    while len(data) < size:
        data += connection.recv(size - len(data))
    return json.loads(data), streams


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked may have gone
        connection.sendall(NUMBER.pack(number))


def _listed(env: os._Environ[str] | dict[str, str]) -> list[str]:
    return [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asked, and for the commands
    for name in _SLOW:
        importlib.import_module(name)
    gc.freeze()
    become(*serve(socket.socket(fileno=int(sys.argv[1])), sys.stdin.fileno()))
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
