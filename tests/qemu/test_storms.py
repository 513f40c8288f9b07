"""Many connections, over a tap: bursts, long successions, floods of unanswered SYNs, idle crowds."""
import os
import selectors
import socket
import time

import pytest

from namespace import ACK, PSH, SYN, STRANGER_IP, Wire, ipv4, tcp
from resp import info


def burst(server, count, limit_s):
    """Connects `count` clients at once; each sends PING. How many got PONG within the limit."""
    selector = selectors.DefaultSelector()
    waiting, pongs = {}, 0
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((server.host, server.port))
        waiting[client] = b""
        selector.register(client, selectors.EVENT_WRITE)
    end = time.monotonic() + limit_s
    while waiting and time.monotonic() < end:
        for key, event in selector.select(1):
            client = key.fileobj
            if event & selectors.EVENT_WRITE:
                error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                assert not error, "a connection was refused: " + os.strerror(error)
                client.sendall(b"PING\r\n")
                selector.modify(client, selectors.EVENT_READ)
            else:
                waiting[client] += client.recv(100)
                if waiting[client] == b"+PONG\r\n":
                    pongs += 1
                    selector.unregister(client)
                    del waiting[client]
                    # Stays open until all are done: the whole crowd is connected at one time.
                    held.append(client)
    selector.close()
    for client in waiting:
        client.close()
    return pongs


held = []


def test_a_thousand_clients_at_once_three_times_over(tap_server):
    for _ in range(3):
        try:
            assert burst(tap_server, 1000, 60) == 1000
        finally:
            while held:
                held.pop().close()


def test_20_000_connections_in_a_row(tap_server):
    """Connect, PING, close; the last thousand are not slower than the first by more than noise."""
    sources, took = tap_server.namespace.sources, []
    for block in range(20):
        started = time.monotonic()
        for n in range(1000):
            with socket.create_connection((tap_server.host, tap_server.port), 20,
                                          source_address=(sources[(block * 1000 + n) % len(sources)], 0)) as client:
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"
        took.append(time.monotonic() - started)
    early, late = sorted(took[:5])[2], sorted(took[-5:])[2]
    assert late < 3 * early + 0.5, "1,000 connections took %.2f s at first and %.2f s at the end" % (early, late)
    # Nothing of them is left behind.
    deadline = time.monotonic() + 10
    while int(info(tap_server.host, tap_server.port, "connected_clients")) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_200_unanswered_syns_shut_no_door(tap_server):
    wire = Wire()
    try:
        for round_number in range(3):
            for n in range(200):
                wire.frame(ipv4(6, tcp(SYN, source_port=10_000 + 200 * round_number + n, seq=n, options=b"\x02\x04\x05\xb4")))
            answered = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[30:34] == socket.inet_aton(STRANGER_IP))
            assert answered, "no SYN was answered: the flood did not reach the server"
            started = time.monotonic()
            with tap_server.connect() as connection:
                assert connection.ask("PING") == b"+PONG\r\n"
            assert time.monotonic() - started < 1.0
    finally:
        wire.close()


def test_a_thousand_idle_connections(tap_server):
    """They cost memory that is given back, and the others nothing."""
    # A first crowd, so that tables have their size.
    for first in (True, False):
        if not first:
            before = int(info(tap_server.host, tap_server.port, "used_memory"))
        crowd = [tap_server.connect(source=tap_server.namespace.sources[n % 20]) for n in range(1000)]
        with tap_server.connect() as connection:
            for _ in range(200):
                assert connection.ask("PING") == b"+PONG\r\n"
            assert b"connected_clients:1001" in connection.ask("INFO", "clients")
        for connection in crowd:
            connection.close()
        deadline = time.monotonic() + 20
        while int(info(tap_server.host, tap_server.port, "connected_clients")) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    # A client is gone for the engine before its connection is for the stack: the last acknowledgements may be under way.
    deadline = time.monotonic() + 20
    while (used := int(info(tap_server.host, tap_server.port, "used_memory"))) >= before + 131_072:
        assert time.monotonic() < deadline, "%d bytes in use, %d before" % (used, before)
        time.sleep(0.2)


@pytest.mark.long
def test_a_peer_that_vanished_is_reaped(tap_server):
    """It completes the handshake and is never heard of again: keep-alive finds out."""
    wire, port = Wire(), 31_000
    client = tap_server.client()
    client.config_set("tcp-keepalive", 1)
    try:
        wire.frame(ipv4(6, tcp(SYN, source_port=port, seq=1, options=b"\x02\x04\x05\xb4")))
        answer = wire.receive(lambda f: f[12:14] == b"\x08\0" and f[36:38] == port.to_bytes(2, "big"), 5)
        assert answer, "the SYN was not answered"
        theirs = int.from_bytes(answer[38:42], "big")
        wire.frame(ipv4(6, tcp(ACK | PSH, source_port=port, seq=2, ack=theirs + 1, data=b"CLIENT SETNAME ghost\r\n")))
        deadline = time.monotonic() + 5
        while not any(one["name"] == "ghost" for one in client.client_list()):
            assert time.monotonic() < deadline, "the connection is not there"
        deadline = time.monotonic() + 90
        while any(one["name"] == "ghost" for one in client.client_list()):
            assert time.monotonic() < deadline, "the connection of a peer that vanished is still there"
            time.sleep(0.5)
    finally:
        client.config_set("tcp-keepalive", 300)
        wire.close()
