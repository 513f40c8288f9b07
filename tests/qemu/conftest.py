"""Fixtures: machines by architecture and number of CPUs, over user networking or a tap in a namespace of the test's own.

--target HOST:PORT runs the tests that need nothing but a server against another one (the host platform, redis-server);
--arch and --smp choose machines; --long adds the long tests.
"""
import pytest

from machine import Machine, ROOT
from namespace import Namespace
from resp import Connection

ARCHES, CPUS = ("x86_64", "aarch64"), (1, 4)


def pytest_addoption(parser):
    parser.addoption("--target", help="HOST:PORT of a server to test instead of booting")
    parser.addoption("--arch", action="append", choices=ARCHES, help="only this architecture")
    parser.addoption("--smp", action="append", type=int, help="only this number of CPUs")
    parser.addoption("--long", action="store_true", help="also the tests marked 'long'")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long"):
        dropped = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def machine_params(config, cpus=CPUS):
    """(arch, smp) pairs that the options leave."""
    return [(arch, smp) for arch in config.getoption("--arch") or ARCHES for smp in config.getoption("--smp") or cpus
            if smp in cpus]


def pytest_generate_tests(metafunc):
    """`server` and `tap_server` run once a machine, `arch` once an architecture."""
    config, names = metafunc.config, metafunc.fixturenames
    target = config.getoption("--target")
    if "machine_kind" in names:
        pairs = [None] if target else machine_params(config)
        metafunc.parametrize("machine_kind", pairs, scope="session",
                             ids=lambda pair: "%s-smp%d" % pair if pair else "target")
    if "arch" in names:
        metafunc.parametrize("arch", config.getoption("--arch") or ARCHES, scope="session")


class Server:
    """Where a test's server is, and the machine behind it if the test booted one."""

    def __init__(self, host, port, machine=None, namespace=None):
        self.host, self.port, self.machine, self.namespace = host, port, machine, namespace

    def connect(self, **options):
        """A bare connection."""
        return Connection(self.host, self.port, **options)

    def client(self, **options):
        """A redis-py client, bytes in and out."""
        import redis
        return redis.Redis(self.host, self.port, **options)


class Pool:
    """Keeps one machine running: the one asked for last, as long as it is sound."""

    def __init__(self):
        self.key, self.machine, self.failed_boots = None, None, {}

    def get(self, key, make):
        """The running machine for `key`, or a new one from `make()`. One that failed to boot twice is not tried again."""
        if self.key != key or not self.machine.running:
            self.drop()
            assert self.failed_boots.get(key, 0) < 2, "%s does not boot: see the tests before" % (key,)
            try:
                self.machine, self.key = make(), key
            except AssertionError:
                self.failed_boots[key] = self.failed_boots.get(key, 0) + 1
                raise
        return self.machine

    def drop(self):
        """Ends the machine."""
        if self.machine:
            self.machine.kill()
        self.key = self.machine = None


@pytest.fixture(scope="session")
def pool():
    machines = Pool()
    yield machines
    machines.drop()


@pytest.fixture(scope="session")
def pool_namespace(request):
    """The network namespace with the tap that the pool's machines are on."""
    if request.config.getoption("--target"):
        pytest.skip("needs a machine of its own")
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def namespace(pool, pool_namespace):
    """The same with its tap free, for machines that a test boots itself."""
    if pool.key and pool.key[0] != "user":
        pool.drop()
    return pool_namespace


def _target(request):
    host, _, port = request.config.getoption("--target").rpartition(":")
    return Server(host or "127.0.0.1", int(port))


# Debug commands are off by default; the tests want DEBUG SLEEP and the like.
TEST_ARGS = "enable-debug-command=yes"


# `machine_kind` is parametrised for the session, so that tests are grouped by machine; whether that machine is still sound
# is looked at anew for each test.
@pytest.fixture
def server(request, pool, machine_kind):
    """A server with an empty keyspace, reached over user networking."""
    if request.config.getoption("--target"):
        made = _target(request)
    else:
        arch, smp = machine_kind
        made = Server("127.0.0.1", None)
        made.machine = pool.get(("user", arch, smp), lambda: Machine(arch, SMP=smp, MEM="512M", ARGS=TEST_ARGS))
        made.host, made.port = made.machine.host, made.machine.port
    yield from _use(request, made)


@pytest.fixture
def tap_server(request, pool, pool_namespace, machine_kind):
    """A server with an empty keyspace on a tap; the test runs inside the tap's namespace."""
    if request.config.getoption("--target"):
        pytest.skip("needs a machine of its own")
    arch, smp = machine_kind
    with pool_namespace:
        machine = pool.get(("tap", arch, smp), lambda: Machine(arch, SMP=smp, MEM="512M", NET="tap", ARGS=TEST_ARGS))
        yield from _use(request, Server(machine.host, machine.port, machine, pool_namespace))


def _use(request, made):
    request.node.machine = made.machine
    with made.connect() as connection:
        connection.ask("FLUSHALL")
    yield made
    if made.machine:
        assert made.machine.running, "the guest did not survive the test\n" + made.machine.transcript()


@pytest.fixture
def boot(request):
    """Boots machines for one test: boot("x86_64", MEM="32M", ...). They are ended with the test."""
    if request.config.getoption("--target"):
        pytest.skip("needs a machine of its own")
    machines = []

    def start(arch, **options):
        machine = Machine(arch, **options)
        machines.append(machine)
        request.node.machine = machine
        return machine

    yield start
    for machine in machines:
        machine.kill()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test's report shows the console."""
    report = (yield).get_result()
    machine = getattr(item, "machine", None)
    if report.failed and machine:
        report.sections.append(("guest console", machine.transcript()[-20000:]))


def pytest_report_header(config):
    return "barium: %s" % (config.getoption("--target") or "images under %s" % (ROOT / "build"))
