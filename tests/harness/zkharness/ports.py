"""Free ports on loopback, below the kernel's range for outgoing connections, so that a client's socket never takes one."""

import random
import socket

FIRST, LAST = 15_000, 31_999
TRIES_MAX = 500
_taken = set()
_random = random.Random()


def free_port():
    """A port that nobody listens on and that this process has not handed out before."""
    for _ in range(TRIES_MAX):
        port = _random.randint(FIRST, LAST)
        if port in _taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _taken.add(port)
        return port
    raise RuntimeError(f"no free port in {FIRST}..{LAST} after {TRIES_MAX} tries")
