"""A bare RESP connection, for tests that care about bytes: what is sent and what comes back, unparsed by a library."""
import socket
import time


def command(*words):
    """The bytes of a command as an array of bulk strings."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    """A TCP connection to a server; replies come back as their whole bytes."""

    def __init__(self, host, port, limit_s=10.0, source=None):
        self.socket = socket.create_connection((host, port), limit_s, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.limit_s, self.buffer, self.at = limit_s, bytearray(), 0

    def send(self, data):
        """Sends raw bytes."""
        self.socket.settimeout(self.limit_s)
        self.socket.sendall(data)

    def _fill(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no whole reply within %.1f s" % self.limit_s)
        self.socket.settimeout(left)
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("closed by the server")
        self.buffer += data

    def _take(self, size, deadline):
        while len(self.buffer) - self.at < size:
            self._fill(deadline)
        piece = bytes(self.buffer[self.at:self.at + size])
        self.at += size
        return piece

    def _line(self, deadline):
        start = self.at
        while (end := self.buffer.find(b"\r\n", start)) < 0:
            start = max(self.at, len(self.buffer) - 1)
            self._fill(deadline)
        return self._take(end + 2 - self.at, deadline)

    def _reply(self, deadline):
        line = self._line(deadline)
        if line[:1] in b"+-:_,#(":
            return line
        count = int(line[1:])
        if line[:1] in b"$=!":
            return line if count < 0 else line + self._take(count + 2, deadline)
        parts = [line]
        for _ in range(max(count, 0) * (2 if line[:1] in b"%|" else 1)):
            parts.append(self._reply(deadline))
        return b"".join(parts)

    def reply(self, limit_s=None):
        """The bytes of the next whole reply."""
        whole = self._reply(time.monotonic() + (limit_s or self.limit_s))
        if self.at > 1 << 20:
            del self.buffer[:self.at]
            self.at = 0
        return whole

    def take(self, size, limit_s=None):
        """So many bytes, whatever they make up."""
        return self._take(size, time.monotonic() + (limit_s or self.limit_s))

    def ask(self, *words):
        """Sends a command and gives its reply."""
        self.send(command(*words))
        return self.reply()

    def closed(self, limit_s=5.0):
        """Whether the server closes the connection in time; what it still sends is dropped."""
        deadline = time.monotonic() + limit_s
        try:
            while True:
                self._fill(deadline)
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        """Closes the connection."""
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def info(host, port, field):
    """One field of INFO, as text."""
    with Connection(host, port) as connection:
        for line in connection.ask("INFO", "everything").decode().split("\r\n"):
            name, _, value = line.partition(":")
            if name == field:
                return value
    raise AssertionError("INFO has no field " + field)
