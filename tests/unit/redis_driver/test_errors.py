"""What servers answer becomes the library's own errors, whichever version words it."""

import pytest
import redis
from redis import exceptions

from flask_jobs.drivers.redis.checks import check_server
from flask_jobs.drivers.redis.client import Server
from flask_jobs.errors import ConfigurationError, ConnectionLost, Stored, StoreRefused


class Answering(redis.ConnectionPool):
    """Stands for a server: its one connection answers every command alike."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer
        self.sent = []
        self.cut = False

    def get_connection(self, *_):
        return self

    def send_command(self, *command):
        self.sent.append(command)

    def read_response(self, **_):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def release(self, connection):
        pass

    def disconnect(self, *_, **__):
        self.cut = True


def asked(answer):
    pool = Answering(answer)
    return Server.of(redis.Redis(connection_pool=pool), key="{a:b}:"), pool


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "maxmemory"),
        (
            exceptions.ResponseError(
                "Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed"
            ),
            "maxmemory",
        ),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "replica"),
        (exceptions.ResponseError("Error running script: @user_script:9: -READONLY You can't write"), "replica"),
        (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "disk"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "replicas"),
        (exceptions.NoPermissionError("this user has no permissions"), "permi|may not"),
        (exceptions.AuthenticationError("Authentication required."), "credentials"),
        (exceptions.MovedError("1 127.0.0.1:7000"), r"redis\+cluster://"),
        (exceptions.ResponseError("ERR something new"), "something new"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_is_not_repeated(answer, told):
    server, pool = asked(answer)

    with pytest.raises(StoreRefused, match=told):
        server.run("EVALSHA", "x")

    assert len(pool.sent) == 1


@pytest.mark.parametrize(
    "answer",
    [
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.MasterDownError("Link with MASTER is down"),
        exceptions.ClusterDownError("The cluster is down"),
        exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
        exceptions.ResponseError("BUSY Redis is busy running a script."),
        exceptions.ResponseError("UNBLOCKED force unblock from blocking operation, instance state changed"),
    ],
)
def test_a_server_that_takes_no_commands_just_now_has_stored_nothing(answer):
    server, _ = asked(answer)

    with pytest.raises(ConnectionLost) as lost:
        server.run("EVALSHA", "x")

    assert lost.value.stored is Stored.NO


@pytest.mark.parametrize(
    "error", [exceptions.ConnectionError("gone"), exceptions.TimeoutError("slow"), OSError("reset")]
)
def test_a_lost_answer_leaves_it_unknown_and_is_not_asked_for_again(error):
    server, pool = asked(error)

    with pytest.raises(ConnectionLost) as lost:
        server.run("EVALSHA", "x")

    assert lost.value.stored is Stored.UNKNOWN
    assert len(pool.sent) == 1


def test_an_interrupted_command_leaves_no_answer_behind_for_the_next():
    server, pool = asked(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        server.run("EVALSHA", "x")

    assert pool.cut


def test_a_server_that_is_too_old_is_refused():
    server, _ = asked(b"# Server\r\nredis_version:5.0.14\r\nmaxmemory_policy:noeviction\r\n")

    with pytest.raises(ConfigurationError, match=r"5\.0\.14"):
        check_server(server)


@pytest.mark.parametrize("version", [b"6.2.0", b"7.2.4", b"8.0.1", b"10.0.0"])
def test_newer_servers_are_welcome(version):
    server, _ = asked(b"redis_version:" + version + b"\r\nserver_name:valkey\r\nmaxmemory_policy:noeviction\r\n")

    check_server(server)
