"""A Cluster of three nodes: each connection's keys stay together, connections spread, and slots may move."""

import secrets
import threading

import pytest
from redis.cluster import ClusterNode, RedisCluster

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.envelope import Ack, After
from flask_jobs.errors import ConnectionLost, Stored, StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.support import envelope, fail, id_list, pop, pop_one, push, release, roomy

from ...servers import free_port, redis_cluster, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture
def cluster_url(nodes):
    return nodes[0].url.replace("redis://", "redis+cluster://")


@pytest.fixture
def cluster_driver(cluster_url):
    driver = RedisDriver(cluster_url, prefix=f"test-{secrets.token_hex(6)}", connection="redis")
    yield driver
    driver.close()


def keys_on(node):
    client = node.client()
    keys = {key.decode() for key in client.scan_iter(count=1_000)}
    client.close()
    return keys


def test_every_step_of_a_life_runs_on_the_one_node_of_its_connection(nodes, cluster_driver):
    ids = push(cluster_driver, 5) + push(cluster_driver, due=After(60.0)) + push(cluster_driver, front=True)
    held = pop(cluster_driver, room=roomy(4)).reservations
    cluster_driver.settle([Ack(held[0]), release(held[1], After(60.0)), fail(held[2])])
    cluster_driver.retry(held[2].envelope.id, new_id())
    cluster_driver.pause("other")
    exchange = cluster_driver.exchange([Ack(held[3])], ["default"], new_id(), roomy())

    prefix = "{" + cluster_driver._keys.head[1:].partition(":")[0]
    homes = [node for node in nodes if any(key.startswith(prefix) for key in keys_on(node))]
    assert len(ids) == 7
    assert len(exchange.popped.reservations) == 3
    assert len(homes) == 1


def test_several_connections_fill_the_whole_cluster(nodes, cluster_url):
    prefix = f"test-{secrets.token_hex(6)}"
    drivers = [RedisDriver(cluster_url, prefix=prefix, connection=f"jobs-{number}") for number in range(12)]
    for driver in drivers:
        push(driver, 2)

    homes = [node for node in nodes if any(prefix in key for key in keys_on(node))]

    assert homes == nodes
    assert [driver.size("default") for driver in drivers] == [Sizes(ready=2)] * 12
    for driver in drivers:
        driver.close()


def test_a_client_that_is_passed_in_stays_the_callers_to_close(nodes):
    with RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", nodes[1].port)]) as client:
        driver = RedisDriver(client, prefix=f"test-{secrets.token_hex(6)}", connection="redis")
        ids = push(driver)
        driver.close()

        assert client.ping()
        assert pop_one(driver).envelope.id == ids[0]


def test_a_node_of_a_cluster_under_a_plain_url_is_told_apart(nodes):
    prefix = f"test-{secrets.token_hex(6)}"
    drivers = [RedisDriver(node.url, prefix=prefix, connection="redis") for node in nodes]
    refusals = []
    for driver in drivers:
        try:
            driver.push([Push(envelope())])
        except StoreRefused as refused:
            refusals.append(str(refused))
        driver.close()

    assert len(refusals) == 2
    assert all("redis+cluster://" in message for message in refusals)


def test_a_slot_that_moves_is_followed(nodes, cluster_driver):
    ids = push(cluster_driver, 20)
    held = pop_one(cluster_driver)

    move(nodes, cluster_driver._keys.head)

    assert cluster_driver.settle([Ack(held)]).stale == ()
    assert id_list(pop(cluster_driver, room=roomy()).reservations) == ids[1:]
    assert push(cluster_driver)


def test_an_unreachable_cluster_is_an_error():
    driver = RedisDriver(f"redis+cluster://127.0.0.1:{free_port()}", prefix="test", connection="redis")

    with pytest.raises(ConnectionLost):
        driver.push([Push(envelope())])


def test_a_step_waits_until_its_slot_has_moved_and_all_stays_together(nodes, cluster_driver):
    ids = push(cluster_driver, 5)
    moving = Moving(nodes, cluster_driver._keys.head)
    moving.begin()
    pushing = threading.Thread(target=lambda: ids.extend(push(cluster_driver, 2)))
    pushing.start()
    wait_until(lambda: moving.redirections() > 4, what="a command that is told to ask elsewhere")

    moving.finish()
    pushing.join()

    assert id_list(pop(cluster_driver, room=roomy()).reservations) == ids
    assert len(ids) == 7


def test_a_slot_that_does_not_get_there_is_an_error_within_a_limit_and_nothing_is_done(nodes, cluster_driver):
    ids = push(cluster_driver, 2)
    moving = Moving(nodes, cluster_driver._keys.head)
    moving.begin()

    with pytest.raises(ConnectionLost, match="moving our keys") as lost:
        cluster_driver.push([Push(envelope())])

    moving.finish()
    assert lost.value.stored is Stored.NO
    assert id_list(pop(cluster_driver, room=roomy()).reservations) == ids


def move(nodes, key):
    """Move the slot of the key to another node, with its keys, as an operator would."""
    moving = Moving(nodes, key)
    moving.begin()
    moving.finish()


class Moving:
    """The slot of the key on its way to another node."""

    def __init__(self, nodes, key):
        self._clients = [node.client() for node in nodes]
        self._slot = self._clients[0].execute_command("CLUSTER KEYSLOT", key)
        counts = [client.execute_command("CLUSTER COUNTKEYSINSLOT", self._slot) for client in self._clients]
        self._names = [client.execute_command("CLUSTER MYID").decode() for client in self._clients]
        self._source = next(number for number, count in enumerate(counts) if count)
        self._target = (self._source + 1) % 3
        self._port = nodes[self._target].port
        self._before = 0
        self._before = self.redirections()

    def redirections(self):
        """How often the node has sent somebody on to the other one."""
        found = self._clients[self._source].info("errorstats").get("errorstat_ASK", {"count": 0})
        return found["count"] - self._before

    def begin(self):
        source, target = self._clients[self._source], self._clients[self._target]
        target.execute_command("CLUSTER SETSLOT", self._slot, "IMPORTING", self._names[self._source])
        source.execute_command("CLUSTER SETSLOT", self._slot, "MIGRATING", self._names[self._target])

    def finish(self):
        source = self._clients[self._source]
        keys = source.execute_command("CLUSTER GETKEYSINSLOT", self._slot, 1_000)
        source.execute_command("MIGRATE", "127.0.0.1", self._port, "", 0, 5_000, "KEYS", *keys)
        for number in (self._target, self._source, (self._source + 2) % 3):
            self._clients[number].execute_command("CLUSTER SETSLOT", self._slot, "NODE", self._names[self._target])
        for client in self._clients:
            client.close()
