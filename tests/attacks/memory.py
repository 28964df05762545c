"""Attacks with memory, wherever it may hide, and with output."""

from __future__ import annotations

from services.core.scoring.ports import Ending, Limits
from tests.attacks.attack import SMALL, Attack

WIDE = Limits(cpu_seconds=4.0, wall_seconds=8.0, memory_bytes=600 << 20, output_bytes=1 << 20)
FLOOD = "block = b'x' * (1 << 20)\nfor _ in range(300): os.write({number}, block)\nwon()\n"

ATTACKS = (
    Attack(
        "3 GB at once", "block = bytearray(3 << 30)\nfor at in range(0, len(block), 4096): block[at] = 1\nwon()", WIDE
    ),
    Attack(
        "3 GB bit by bit",
        "kept = []\nfor _ in range(300): kept.append(b'x' * 10_000_000)\nwon()",
        WIDE,
        endings=(Ending.MEMORY, Ending.EXITED),
    ),
    Attack(
        "5 x 400 MB",
        "import time\n"
        "reading, writing = os.pipe()\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        kept = b'x' * (400 << 20)\n"
        "        os.write(writing, b'!')\n"
        "        time.sleep(5)\n"
        "        os._exit(0)\n"
        "os.close(writing)\n"
        "count = 0\n"
        "while count < 5 and os.read(reading, 1): count += 1\n"
        "if count == 5: won()\n",
        WIDE,
    ),
    Attack(
        "a file in memory",
        "def go():\n"
        "    handle = os.memfd_create('x')\n"
        "    for _ in range(50): os.write(handle, b'x' * (1 << 20))\n"
        "attempt(go)",
    ),
    Attack("shared memory of System V", "attempt(lambda: syscall(29 if X86 else 194, 0, 1 << 30, 0o1600))"),
    Attack("message queues", "attempt(lambda: syscall(68 if X86 else 186, 0, 0o1600))"),
    Attack(
        "shared memory of POSIX",
        "from multiprocessing import shared_memory\n"
        "def go():\n"
        "    block = shared_memory.SharedMemory(create=True, size=1 << 30)\n"
        "    for at in range(0, 1 << 30, 4096): block.buf[at] = 1\n"
        "attempt(go)",
        WIDE,
    ),
    Attack(
        "mapped memory",
        "import mmap\n"
        "block = mmap.mmap(-1, 700 << 20)\n"
        "for at in range(0, 700 << 20, 4096): block[at] = 1\n"
        "import time\n"
        "time.sleep(1)\n"
        "won()",
        WIDE,
        endings=(Ending.MEMORY,),
    ),
    Attack("a huge product", "import itertools\nlist(itertools.product(range(1000), repeat=4))\nwon()", SMALL),
    Attack("a huge number", "x = 9 ** 9 ** 9\nwon()", SMALL),
    Attack(
        "a catastrophic pattern",
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')\nwon()",
        SMALL,
        endings=(Ending.CPU_TIME,),
    ),
    Attack("300 MB of output", FLOOD.format(number=1), WIDE, endings=(Ending.OUTPUT,)),
    Attack("300 MB of complaints", FLOOD.format(number=2), WIDE, endings=(Ending.OUTPUT,)),
    Attack(
        "garbage on every descriptor",
        "for number in range(1024):\n"
        "    try:\n"
        '        os.write(number, b\'{"exit-code": 0}\\n'
        "' * 10)\n"
        "    except OSError: pass\n",
        endings=(Ending.EXITED,),
    ),
    Attack("no descriptors", "os.closerange(0, 1024)\nimport time\ntime.sleep(0.1)", endings=(Ending.EXITED,)),
    Attack(
        "output that is no text",
        "os.write(1, bytes(range(256)) * 10)\nos.write(2, b'\\x1b[2J\\0\\xff')",
        endings=(Ending.EXITED,),
    ),
    Attack(
        "deleting everything",
        "import shutil\n"
        "for folder in ('/program', '/tmp', '/usr', '/'):\n"
        "    shutil.rmtree(folder, ignore_errors=True)\n",
        endings=(Ending.EXITED,),
    ),
    Attack(
        "a message as if from the sandbox",
        "os.write(2, b'bwrap: no permission\\n')\nsys.exit(1)",
        endings=(Ending.EXITED,),
    ),
)
