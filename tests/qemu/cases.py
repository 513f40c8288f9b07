"""Reads and plays the case files under tests/cases: small exact conversations.

A file holds cases; each starts with '# title' and is played on an emptied server. A line is, for a connection named by a
letter:
  A> SET k "a b"     send the command as an array (shell quoting; \\xHH and \\n in double quotes)
  A>> PING\\r\\n       send raw bytes
  A< +OK\\r\\n         the next whole reply is exactly these bytes
  A<< *2\\r\\n        the next bytes are exactly these, whole replies or not
  A<~ REGEX          the next whole reply matches (bytes, escaped as above)
  A!                 nothing arrives within 150 ms
  A.                 the server closes the connection (what it still sends is not looked at)
  A#                 close the connection
  wait 100           sleep, in ms
"""
import pathlib
import re
import shlex
import time

from resp import Connection, command

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases"
ESCAPES = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}
LINE = re.compile(r"([A-Z])(>>|>|<~|<<|<|!|\.|#)\s?(.*)$")


def unescape(text):
    """The bytes that escaped text stands for. A backslash before anything else stays, for regular expressions."""
    def one(match):
        code = match[1]
        return bytes([int(code[1:], 16)]) if code[:1] == b"x" else ESCAPES[code]
    return re.sub(rb"\\(x[0-9a-fA-F]{2}|[rnt\\\"])", one, text.encode())


def words(text):
    """The arguments of a command line."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    return [unescape(word) for word in lexer]


def load():
    """Every case, as (file name without ending, title, lines)."""
    found = []
    for path in sorted(CASES.glob("*.txt")):
        for line in path.read_text().splitlines():
            if line.startswith("# "):
                found.append((path.stem, line[2:], []))
            elif line.strip() and found and found[-1][0] == path.stem:
                found[-1][2].append(line)
    return found


def later():
    """Titles of cases that need command families which do not exist yet, with the family, from cases/later.list."""
    listed = {}
    for line in (CASES / "later.list").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            title, _, reason = line.partition(" -- ")
            listed[title.strip()] = reason.strip()
    return listed


def play(lines, host, port):
    """Plays a case; what went wrong, as lines of text."""
    connections, wrong = {}, []
    with Connection(host, port) as first:
        first.ask("FLUSHALL")
    try:
        for line in lines:
            if line.startswith("wait "):
                time.sleep(int(line[5:]) / 1000)
                continue
            name, action, rest = LINE.match(line).groups()
            connection = connections.get(name) or connections.setdefault(name, Connection(host, port))
            if action == ">":
                connection.send(command(*words(rest)))
            elif action == ">>":
                connection.send(unescape(rest))
            elif action in ("<", "<~", "<<"):
                try:
                    got = connection.take(len(unescape(rest)), 5) if action == "<<" else connection.reply(5)
                except OSError as error:
                    wrong.append("%s\n     got  %r, %s" % (line, bytes(connection.buffer[connection.at:]), error))
                    break
                wanted = unescape(rest)
                if got != wanted if action != "<~" else not re.fullmatch(wanted, got, re.S):
                    wrong.append("%s\n     got  %r" % (line, got))
            elif action == "!":
                try:
                    wrong.append("%s\n     got  %r" % (line, connection.reply(0.15)))
                except TimeoutError:
                    pass
            elif action == ".":
                if not connection.closed():
                    wrong.append(line + "\n     still open")
            elif action == "#":
                connections.pop(name).close()
    finally:
        for connection in connections.values():
            connection.close()
    return wrong
