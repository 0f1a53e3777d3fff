"""One connection is used over and over, and by one process alone."""

import os
import subprocess
import sys
import textwrap

import pytest

from flask_jobs.drivers.redis.client import Server


@pytest.fixture
def server(redis_url):
    server = Server.at(redis_url, key="{a:b}:")
    yield server
    server.close()


def test_commands_one_after_the_other_take_the_same_connection(server):
    ids = {server.run("CLIENT", "ID") for _ in range(5)}

    assert len(ids) == 1


def test_a_connection_that_the_server_has_closed_is_replaced_before_anything_is_sent(server, client):
    old = server.run("CLIENT", "ID")
    client.client_kill_filter(_id=str(old))

    new = server.run("CLIENT", "ID")

    assert new != old


def test_a_server_that_was_closed_opens_again(server):
    old = server.run("CLIENT", "ID")
    server.close()

    new = server.run("CLIENT", "ID")

    assert new != old


def test_a_forked_process_has_a_connection_of_its_own(redis_url):
    program = textwrap.dedent(
        """
        import os, sys
        from flask_jobs.drivers.redis.client import Server
        server = Server.at(sys.argv[1], key="{a:b}:")
        first = server.run("CLIENT", "ID")
        if (child := os.fork()) == 0:
            os._exit(server.run("CLIENT", "ID") == first)
        assert os.waitpid(child, 0)[1] == 0
        assert server.run("CLIENT", "ID") == first
        """
    )

    ended = subprocess.run([sys.executable, "-c", program, redis_url], env=dict(os.environ), timeout=30, check=False)

    assert ended.returncode == 0
