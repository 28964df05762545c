"""Attacks on the network and on local sockets."""

from __future__ import annotations

from tests.attacks.attack import Attack

ATTACKS = (
    Attack(
        "tcp to a local port", "import socket\nattempt(lambda: socket.create_connection(('127.0.0.1', W['tcp']), 1))"
    ),
    Attack(
        "udp to a local port",
        "import socket\n"
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', W['udp'])))",
    ),
    Attack("socket at a path", "import socket\nattempt(lambda: socket.socket(socket.AF_UNIX).connect(W['unix']))"),
    Attack(
        "abstract socket",
        "import socket\nattempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0' + W['abstract']))",
    ),
    Attack(
        "datagram out of a connected pair",
        "import socket\n"
        "def go():\n"
        "    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "    left.sendto(b'x', W['datagram'])\n"
        "attempt(go)",
    ),
    Attack("netlink", "import socket\nattempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))"),
    Attack(
        "raw socket",
        "import socket\nattempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))",
    ),
    Attack("listening", "import socket\nattempt(lambda: socket.create_server(('127.0.0.1', 0)))"),
    Attack(
        "http",
        "import urllib.request\nattempt(lambda: urllib.request.urlopen(f\"http://127.0.0.1:{W['tcp']}/\", timeout=1))",
    ),
    Attack("names of hosts", "import socket\nattempt(lambda: socket.getaddrinfo('example.com', 80))"),
    Attack(
        "inherited sockets",
        "for number in range(3, 1024):\n"
        "    try:\n"
        "        found = os.fstat(number)\n"
        "    except OSError:\n"
        "        continue\n"
        "    if not os.path.samestat(found, os.stat(__file__)): won(f'descriptor {number}, mode {found.st_mode:o}')",
    ),
)
