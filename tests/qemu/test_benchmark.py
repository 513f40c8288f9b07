"""A short selection of what `make soak` runs in full: all of redis-benchmark, without an error, a reset or a stall."""
import pytest

import benchmark


@pytest.mark.parametrize("options", (("-c", 30), ("-c", 30, "-P", 16), ("-c", 200), ("-c", 30, "-d", 1024)),
                         ids=("plain", "pipelined", "200 clients", "1 KiB values"))
def test_all_of_redis_benchmark(server, options):
    n = 1000 if "-d" in options else 2000
    rates = benchmark.run(server.host, server.port, "-n", n, *options, limit_s=150)
    assert set(rates) == set(benchmark.ROWS)


def test_over_many_keys(server):
    rates = benchmark.run(server.host, server.port, "-n", 5000, "-r", 100_000, "-P", 8, "-t", "set,get,incr,hset,zadd,sadd",
                          limit_s=120)
    assert set(rates) == {"SET", "GET", "INCR", "HSET", "ZADD", "SADD"}
    assert server.client().dbsize() > 1000
