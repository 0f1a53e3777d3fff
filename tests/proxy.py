"""A small TCP proxy before a server, which can cut, halt, freeze, delay, and lead elsewhere.

It reads what clients send command by command, so that it can cut at an exact one, or halt there while somebody kills
the client: before it reaches the server, or after the server has carried it out and before the answer comes back. Or
it lets one be late, while all others pass. It knows the commands of Redis; of what others send, each message counts as
one.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Cut:
    """Lets so many matching commands pass, and cuts or halts at the next one, or holds it back."""

    pass_on: int
    matching: bytes
    carry_out: bool
    halt: bool = False
    hold_back: bool = False


class Proxy:
    """Listens on a port of its own and passes everything on to `target`, a port of the loopback."""

    def __init__(self, target: int, *, is_redis: bool = True) -> None:
        self._is_redis = is_redis
        self.target = target
        self.delay = 0.0
        self.cuts_made = 0
        self._cut: _Cut | None = None
        self.halted = threading.Event()
        self.carried_out = threading.Event()
        self._let_go = threading.Event()
        self._frozen = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut_before(self, number: int, *, matching: bytes = b"EVAL") -> None:
        """Let `number` commands that begin with `matching` pass, and cut the connection instead of the next."""
        self._cut = _Cut(number, matching, carry_out=False)

    def lose_answer(self, number: int, *, matching: bytes = b"EVAL") -> None:
        """Let `number` such commands pass; the next one is carried out, and its answer lost with the connection."""
        self._cut = _Cut(number, matching, carry_out=True)

    def halt_at(self, number: int, *, carry_out: bool, matching: bytes = b"") -> None:
        """Let `number` such commands pass, and pass on nothing of anybody's from the next one until `thaw`.

        `halted` is set when that one is there; with `carry_out`, when the server has carried it out and nobody has
        been told. It goes no further, and its connection is cut by `thaw`.
        """
        self.halted.clear()
        self._cut = _Cut(number, matching, carry_out, halt=True)

    def hold_back(self, number: int, *, matching: bytes) -> None:
        """Let `number` such commands pass, and keep the next one until `let_go`, whatever else passes meanwhile.

        `halted` is set when it is there. It reaches the server also if its client is gone by then.
        """
        self.halted.clear()
        self.carried_out.clear()
        self._let_go.clear()
        self._cut = _Cut(number, matching, carry_out=True, hold_back=True)

    def let_go(self) -> None:
        """Pass on what was held back; `carried_out` is set when the server has answered."""
        self._let_go.set()

    def heal(self) -> None:
        """Cut nothing more, and halt nowhere."""
        self._cut = None

    def freeze(self) -> None:
        """Keep all connections open and pass nothing on."""
        self._frozen.set()

    def thaw(self) -> None:
        """Pass on what has waited, and what comes."""
        self._frozen.clear()

    def close(self) -> None:
        """Cut all connections and stop listening."""
        self._closing.set()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                readable, _, _ = select.select([self._listener], [], [], 0.05)
                client = self._listener.accept()[0] if readable else None
            except (OSError, ValueError):
                return
            if client is not None:
                thread = threading.Thread(target=self._serve, args=(client,))
                thread.start()
                self._threads.append(thread)

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                with socket.create_connection(("127.0.0.1", self.target)) as server:
                    self._pass_on(client, server)
            except OSError:
                return

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        unread = b""
        is_losing = False
        while not self._closing.is_set():
            readable, _, _ = select.select([client, server], [], [], 0.05)
            if self._frozen.is_set():
                time.sleep(0.01)
                continue
            if server in readable:
                answer = server.recv(1 << 20)
                if not answer or is_losing:
                    return
                time.sleep(self.delay)
                client.sendall(answer)
            if client in readable:
                received = client.recv(1 << 20)
                if not received:
                    return
                commands, unread = _split(unread + received) if self._is_redis else ([received], b"")
                for command in commands:
                    cut = self._falls_on(command)
                    if cut is None:
                        server.sendall(command)
                    elif cut.hold_back:
                        self._hold_back(command, server)
                    elif cut.halt:
                        self._halt(cut, command, server)
                        return
                    elif cut.carry_out:
                        server.sendall(command)
                        is_losing = True
                    else:
                        return

    def _halt(self, cut: _Cut, command: bytes, server: socket.socket) -> None:
        if cut.carry_out:
            server.sendall(command)
            select.select([server], [], [], 5.0)  # it answers as soon as it is done; if it never does, nothing is lost
        self._frozen.set()
        self.halted.set()
        while self._frozen.is_set() and not self._closing.is_set():
            time.sleep(0.01)

    def _hold_back(self, command: bytes, server: socket.socket) -> None:
        self.halted.set()
        while not self._let_go.is_set() and not self._closing.is_set():
            time.sleep(0.01)
        server.sendall(command)
        select.select([server], [], [], 5.0)
        self.carried_out.set()

    def _falls_on(self, command: bytes) -> _Cut | None:
        """The cut that is to be made at this command, if one is."""
        with self._lock:
            cut = self._cut
            if cut is None or not self._matches(command, cut.matching):
                return None
            if cut.pass_on > 0:
                cut.pass_on -= 1
                return None
            self._cut = None
            self.cuts_made += 1
            return cut

    def _matches(self, command: bytes, wanted: bytes) -> bool:
        if self._is_redis:
            return command.split(b"\r\n", 3)[2].upper().startswith(wanted)
        return wanted in command


def _split(stream: bytes) -> tuple[list[bytes], bytes]:
    """The complete commands at the beginning of a stream, and the rest."""
    commands: list[bytes] = []
    start = 0
    while (end := _end_of_command(stream, start)) is not None:
        commands.append(stream[start:end])
        start = end
    return commands, stream[start:]


def _end_of_command(stream: bytes, start: int) -> int | None:
    line = stream.find(b"\r\n", start)
    if line < 0:
        return None
    position = line + 2
    for _ in range(int(stream[start + 1 : line])):
        line = stream.find(b"\r\n", position)
        if line < 0:
            return None
        position = line + 2 + int(stream[position + 1 : line]) + 2
        if position > len(stream):
            return None
    return position


@contextmanager
def proxy_to(port: int, *, is_redis: bool = True) -> Iterator[Proxy]:
    """A proxy before the server on this port."""
    proxy = Proxy(port, is_redis=is_redis)
    try:
        yield proxy
    finally:
        proxy.close()
