"""PostgreSQL and MariaDB servers of the tests' own, on free ports, with their data in a folder."""

from __future__ import annotations

import signal
import socket
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from flask_jobs.drivers.database import open_engine
from tests.processes import ServerProcess, free_port
from tests.programs import program, unprivileged


class DatabaseServer(ServerProcess):
    """A server that was just made, whose administrator needs no password."""

    url: sa.URL

    @staticmethod
    @abstractmethod
    def is_installed() -> bool:
        """Whether its programs are there."""

    def answers(self) -> bool:
        """Whether it lets us in."""
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.url.port or 0)) != 0:
                return False
        engine = open_engine(self.url)
        try:
            with engine.connect():
                return True
        except sa.exc.DBAPIError:
            return False
        finally:
            engine.dispose()


class PostgresqlServer(DatabaseServer):
    """PostgreSQL; sessions are ended when it stops politely."""

    stopping = signal.SIGINT
    killing = signal.SIGQUIT  # only so are its processes known to be gone, too

    def __init__(self, folder: Path, *settings: str) -> None:
        user, data = unprivileged(), folder / "data"
        initdb = _program("initdb", user)
        _make_own(folder, user)
        making = ["--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-sync"]
        _run([initdb, *making, "--no-locale"], user)
        self.url = sa.make_url(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")
        address = f"-D {data} -k {folder} -h 127.0.0.1 -p {self.url.port}".split()
        # What is asked of the system's cache survives the server, and no test cuts the power.
        given = [part for setting in ("fsync=off", *settings) for part in ("-c", setting)]
        super().__init__(folder, [_program("postgres", user), *address, *given], user=user)

    @staticmethod
    def is_installed() -> bool:
        return all(program(name, user=unprivileged()) for name in ("initdb", "postgres"))


class MariadbServer(DatabaseServer):
    """MariaDB."""

    def __init__(self, folder: Path, *settings: str) -> None:
        user, data = unprivileged(), folder / "data"
        _make_own(folder, user)
        making = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        _run([_program("mariadb-install-db", user), *making], user)
        self.url = sa.make_url(f"mariadb://root@127.0.0.1:{free_port()}/")
        address = [f"--socket={folder}/socket", f"--port={self.url.port}", "--bind-address=127.0.0.1"]
        small = ["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", f"--pid-file={folder}/pid"]
        given = [f"--{setting}" for setting in settings]
        command = [_program("mariadbd", user), "--no-defaults", f"--datadir={data}", *address, *small, *given]
        super().__init__(folder, command, user=user)

    @staticmethod
    def is_installed() -> bool:
        return all(program(name, user=unprivileged()) for name in ("mariadb-install-db", "mariadbd"))


def _program(name: str, user: str | None) -> Path:
    found = program(name, user=user)
    assert found is not None, f"{name} is not installed"
    return found


def _make_own(folder: Path, user: str | None) -> None:
    folder.chmod(0o755)
    if user is not None:
        _run(["chown", user, folder], None)


def _run(command: Sequence[str | Path], user: str | None) -> None:
    done = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
