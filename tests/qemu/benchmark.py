"""Runs redis-benchmark and reads what it prints."""
import csv
import re
import subprocess

# Every default test of redis-benchmark 7.0, by the names of its -q lines.
ROWS = ("PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "SADD", "HSET", "SPOP", "ZADD",
        "ZPOPMIN", "LPUSH (needed to benchmark LRANGE)", "LRANGE_100 (first 100 elements)", "LRANGE_300 (first 300 elements)",
        "LRANGE_500 (first 500 elements)", "LRANGE_600 (first 600 elements)", "MSET (10 keys)")


def output(host, port, *options, limit_s):
    """What `redis-benchmark OPTIONS` prints; an error, a reset or a stall is an AssertionError."""
    words = ["redis-benchmark", "-h", host, "-p", str(port), *map(str, options)]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s)
    except subprocess.TimeoutExpired as stalled:
        raise AssertionError("%s: not done after %d s; so far: %r" % (" ".join(words), limit_s, (stalled.stdout or b"")[-500:])) \
            from None
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0 and not re.search("error|reset|refused", text, re.I), "%s: status %d\n%s" % (
        " ".join(words), done.returncode, text[-3000:])
    return text


def run(host, port, *options, limit_s):
    """Requests per second by row of `redis-benchmark -q OPTIONS`."""
    text = output(host, port, "-q", *options, limit_s=limit_s)
    return {name: float(rate) for name, rate in re.findall(r"([A-Z][A-Za-z0-9_ ()]*): ([\d.]+) requests per second", text)}


def run_timed(host, port, *options, limit_s):
    """(requests per second, p99 latency in milliseconds) by row of `redis-benchmark --csv OPTIONS`."""
    rows = csv.DictReader(line for line in output(host, port, "--csv", *options, limit_s=limit_s).splitlines() if line[:1] == '"')
    return {row["test"]: (float(row["rps"]), float(row["p99_latency_ms"])) for row in rows}
