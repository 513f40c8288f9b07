"""Several CPUs: connections are spread over them, and what one client does reaches clients of other CPUs.

Each test runs over one queue pair, where the first CPU receives and sends for all, and over one for each CPU.
"""
import collections
import selectors
import threading
import time

import pytest

from conftest import TEST_ARGS
from machine import Machine
from namespace import Namespace
from resp import Connection, command, info

CPUS = 4


@pytest.fixture(scope="module")
def wide_namespace():
    made = Namespace(multi_queue=True)
    yield made
    made.close()


@pytest.fixture(params=("one queue", "queue each"))
def cpus(request, arch, pool, pool_namespace, wide_namespace):
    """Where a machine with four CPUs serves; the test runs inside the tap's namespace."""
    if request.config.getoption("--target") or CPUS not in (request.config.getoption("--smp") or [CPUS]):
        pytest.skip("needs a machine of its own with %d CPUs" % CPUS)
    with pool_namespace if request.param == "one queue" else wide_namespace:
        machine = pool.get((request.param, arch), lambda: Machine(arch, SMP=CPUS, MEM="512M", NET="tap", ARGS=TEST_ARGS))
        request.node.machine = machine
        with Connection(machine.host, machine.port) as connection:
            connection.ask("FLUSHALL")
        yield machine
        assert machine.running, "the guest did not survive the test\n" + machine.transcript()


def clients(machine, count):
    """So many connections."""
    return [Connection(machine.host, machine.port, 20) for _ in range(count)]


def network(machine):
    """INFO's section network, as numbers."""
    with Connection(machine.host, machine.port) as connection:
        lines = connection.ask("INFO", "network").decode().split("\r\n")
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines) if value.isdigit()}


def requests(machine):
    """Commands by CPU, when those of a moment ago are counted."""
    time.sleep(0.1)
    counts = network(machine)
    return [counts["cpu%d_requests" % cpu] for cpu in range(CPUS)]


def close(connections):
    for connection in connections:
        connection.close()


def test_200_clients_are_spread_over_all_cpus(cpus):
    everyone, before = clients(cpus, 200), requests(cpus)
    for _ in range(20):
        for client in everyone:
            client.send(b"PING\r\n")
        for client in everyone:
            assert client.reply() == b"+PONG\r\n"
    counts = [after - earlier for earlier, after in zip(before, requests(cpus))]
    # Besides, INFO itself.
    assert 4000 <= sum(counts) <= 4010, counts
    assert min(counts) >= 200 and max(counts) <= 2000, counts
    assert network(cpus)["mailbox_drops"] == 0
    close(everyone)


def test_messages_reach_subscribers_of_every_cpu_in_order(cpus):
    subscribers, publishers = clients(cpus, 40), clients(cpus, 4)
    for n, subscriber in enumerate(subscribers):
        assert subscriber.ask(*(("SUBSCRIBE", "news") if n % 2 else ("PSUBSCRIBE", "n*"))).startswith(b"*3\r\n")
    for n in range(200):
        assert publishers[n % 4].ask("PUBLISH", "news", "message %d" % n) == b":40\r\n"
    for n in range(200):
        for subscriber in subscribers:
            assert subscriber.reply().endswith(b"\r\nmessage %d\r\n" % n)
    close(subscribers + publishers)


def test_a_client_reads_its_own_reply_before_its_own_push(cpus):
    everyone = clients(cpus, 12)
    for n, client in enumerate(everyone):
        assert client.ask("HELLO", 3).startswith(b"%")
        client.ask("SUBSCRIBE", "self%d" % n)
        assert client.ask("CLIENT", "TRACKING", "on") == b"+OK\r\n"
    for turn in range(20):
        for n, client in enumerate(everyone):
            key = "key%d" % n
            client.ask("GET", key)
            client.send(command("PUBLISH", "self%d" % n, turn) + command("SET", key, turn))
            assert client.reply() == b":1\r\n"
            assert client.reply().startswith(b">3\r\n$7\r\nmessage")
            assert client.reply() == b"+OK\r\n"
            assert client.reply() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n" % (len(key), key.encode())
    close(everyone)


def test_an_element_wakes_one_waiting_client_whose_cpu_ever(cpus):
    waiting, pushers = clients(cpus, 40), clients(cpus, 4)
    for _ in range(5):
        for client in waiting:
            client.send(command("BLPOP", "queue", 20))
        wait_for(lambda: int(info(cpus.host, cpus.port, "blocked_clients")) == 40)
        for n in range(40):
            assert pushers[n % 4].ask("LPUSH", "queue", n) == b":1\r\n"
        got = sorted(int(client.reply().split(b"\r\n")[-2]) for client in waiting)
        assert got == list(range(40))
    # Nobody pushes: everybody's time runs out, and soon.
    begin = time.monotonic()
    for client in waiting:
        client.send(command("BLPOP", "queue", "0.5"))
    assert [client.reply() for client in waiting] == [b"*-1\r\n"] * 40
    assert 0.4 <= time.monotonic() - begin < 10
    close(waiting + pushers)


def wait_for(what, limit_s=10):
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "did not come to pass"
        time.sleep(0.02)


def test_transactions_of_clients_of_different_cpus_are_atomic(cpus):
    """Twelve clients count by WATCH, GET, MULTI, SET, EXEC; each success counts once."""
    successes = collections.Counter()

    def count(n):
        with Connection(cpus.host, cpus.port, 30) as client:
            while successes[n] < 20:
                client.ask("WATCH", "counter")
                value = client.ask("GET", "counter")
                next_value = 1 if value == b"$-1\r\n" else int(value.split(b"\r\n")[1]) + 1
                client.send(command("MULTI") + command("SET", "counter", next_value) + command("INCR", "turns") + command("EXEC"))
                replies = [client.reply() for _ in range(4)]
                assert replies[:3] == [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]
                if replies[3] != b"*-1\r\n":
                    successes[n] += 1

    threads = [threading.Thread(target=count, args=(n,)) for n in range(12)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    with Connection(cpus.host, cpus.port) as client:
        assert client.ask("MGET", "counter", "turns") == b"*2\r\n$3\r\n240\r\n$3\r\n240\r\n"


def test_a_monitor_sees_the_commands_of_all_cpus_in_one_order(cpus):
    everyone = clients(cpus, 40)
    with Connection(cpus.host, cpus.port) as monitor:
        assert monitor.ask("MONITOR") == b"+OK\r\n"
        for n, client in enumerate(everyone):
            client.send(b"".join(command("APPEND", "log", "%d." % n) for _ in range(5)))
        for client in everyone:
            for _ in range(5):
                client.reply()
        seen = b"".join(monitor.reply().split(b'"')[-2] for _ in range(200))
    # The order that it tells is the order in which it happened.
    assert everyone[0].ask("GET", "log").split(b"\r\n")[1] == seen
    close(everyone)


def test_clients_of_other_cpus_are_listed_and_killed(cpus):
    everyone, me = clients(cpus, 60), Connection(cpus.host, cpus.port)
    ids = [int(client.ask("CLIENT", "ID")[1:]) for client in everyone]
    listed = me.ask("CLIENT", "LIST").decode()
    assert all("id=%d " % id in listed for id in ids)
    for id in ids[:30]:
        assert me.ask("CLIENT", "KILL", "ID", id) == b":1\r\n"
    assert all(client.closed() for client in everyone[:30])
    assert me.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= b":30\r\n"
    assert all(client.closed() for client in everyone[30:])
    assert me.ask("PING") == b"+PONG\r\n"
    close(everyone + [me])


def test_clients_killed_under_load(cpus):
    """Pipelines on all CPUs, whose clients are killed all the time and come again."""
    end, failures = time.monotonic() + 4, []

    def load(n):
        while time.monotonic() < end:
            try:
                with Connection(cpus.host, cpus.port, 10) as client:
                    while time.monotonic() < end:
                        client.send(command("INCR", "n%d" % n) * 50)
                        for _ in range(50):
                            assert client.reply().startswith(b":")
            except (ConnectionError, BrokenPipeError):
                continue
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)
                return

    threads = [threading.Thread(target=load, args=(n,)) for n in range(12)]
    [thread.start() for thread in threads]
    killed = 0
    with Connection(cpus.host, cpus.port) as me:
        while time.monotonic() < end:
            killed += int(me.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")[1:])
            time.sleep(0.1)
        [thread.join(20) for thread in threads]
        assert not failures and killed > 20
        wait_for(lambda: me.ask("CLIENT", "LIST").count(b"\nid=") == 1)


def test_a_sleep_of_the_engine_holds_clients_of_all_cpus(cpus):
    everyone, sleeper = clients(cpus, 20), Connection(cpus.host, cpus.port)
    sleeper.send(command("DEBUG", "SLEEP", 1))
    time.sleep(0.2)
    begin = time.monotonic()
    for client in everyone:
        client.send(b"PING\r\n")
    assert all(client.reply() == b"+PONG\r\n" for client in everyone)
    assert 0.5 < time.monotonic() - begin < 8
    assert sleeper.reply() == b"+OK\r\n"
    close(everyone + [sleeper])


def test_a_large_value_goes_to_and_from_every_cpu(cpus):
    """More than a mailbox holds, both ways, while others go on."""
    value = bytes(range(256)) * 4096
    everyone = clients(cpus, 12)
    for n, client in enumerate(everyone):
        client.send(command("SET", "large%d" % n, value))
    assert all(client.reply() == b"+OK\r\n" for client in everyone)
    for n, client in enumerate(everyone):
        client.send(command("GET", "large%d" % n))
    for client in everyone:
        assert client.reply() == b"$%d\r\n%s\r\n" % (len(value), value)
    close(everyone)


def ping_latencies(machine, seconds, greedy):
    """The latencies of 30 clients that PING one after the other's reply, sorted, beside one client with a pipeline of 1000."""
    stop, latencies = threading.Event(), []

    def pipeline():
        with Connection(machine.host, machine.port, 30) as client:
            batch = command("SET", "key", "x" * 100) * 1000
            while not stop.is_set():
                client.send(batch)
                for _ in range(1000):
                    client.reply()

    thread = threading.Thread(target=pipeline)
    if greedy:
        thread.start()
    selector, everyone = selectors.DefaultSelector(), clients(machine, 30)
    for client in everyone:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.began = time.monotonic()
        client.send(b"PING\r\n")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            client = key.data
            assert client.reply() == b"+PONG\r\n"
            latencies.append(time.monotonic() - client.began)
            client.began = time.monotonic()
            client.send(b"PING\r\n")
    stop.set()
    if greedy:
        thread.join(30)
    close(everyone)
    return sorted(latencies)


@pytest.mark.long
def test_a_long_pipeline_starves_no_cpu(arch, boot, namespace):
    """p99 of 30 clients beside one with a pipeline of 1000: at most 3 times what it is with one CPU."""
    p99 = {}
    with namespace:
        for smp in (1, CPUS):
            machine = boot(arch, SMP=smp, NET="tap")
            latencies = ping_latencies(machine, 8, True)
            assert len(latencies) > 200
            p99[smp] = latencies[len(latencies) * 99 // 100]
            machine.kill()
    assert p99[CPUS] <= 3 * p99[1], p99


def test_any_cpu_shuts_the_machine_down(arch, boot, namespace):
    with namespace:
        for number in (1, 4, 9):
            machine = boot(arch, SMP=CPUS, NET="tap")
            everyone = clients(machine, 10)
            everyone[number].send(command("SHUTDOWN", "NOSAVE"))
            assert machine.wait_exit(20) == 0, machine.transcript()


@pytest.mark.long
def test_many_cpus(arch, boot, namespace):
    """As many as the machine has room for: nothing is made for four."""
    with namespace:
        machine = boot(arch, SMP=16, NET="tap", MEM="512M")
        everyone = clients(machine, 64)
        for _ in range(10):
            for client in everyone:
                client.send(command("INCR", "n"))
            for client in everyone:
                client.reply()
        assert everyone[0].ask("GET", "n") == b"$3\r\n640\r\n"
        counts = network(machine)
        assert sum(counts["cpu%d_requests" % cpu] > 0 for cpu in range(16)) >= 12, counts
        close(everyone)


def test_idle_cpus_halt(arch, boot, namespace):
    """After traffic on all CPUs the machine takes next to no time of the host's."""
    with namespace:
        machine = boot(arch, SMP=CPUS, NET="tap")
        close([client for client in clients(machine, 40) if client.ask("PING")])
        time.sleep(1)
        before = machine.cpu_seconds()
        time.sleep(4)
        assert machine.cpu_seconds() - before <= 0.04
