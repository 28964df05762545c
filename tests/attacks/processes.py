"""Attacks with and on processes: too many, too long-lived, somebody else's."""

from __future__ import annotations

from services.core.scoring.ports import Ending, Execution
from tests.attacks.attack import QUICK, SMALL, Attack
from tests.attacks.world import World


def victim_dead(world: World, done: Execution) -> str:
    return "" if world.victim.poll() is None else "it killed a process outside"


def slow(world: World, done: Execution) -> str:
    return f"it held its reader for {done.wall_seconds:.1f} s" if done.wall_seconds > 3.5 else ""


ATTACKS = (
    Attack("fork bomb", "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"),
    Attack(
        "400 processes",
        "import time\n"
        "count = 0\n"
        "try:\n"
        "    for _ in range(400):\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(30)\n"
        "        count += 1\n"
        "except OSError:\n"
        "    pass\n"
        "if count > 100: won(count)\n",
    ),
    Attack(
        "1,000 threads",
        "import threading, time\n"
        "count = 0\n"
        "try:\n"
        "    threading.stack_size(65536)\n"
        "    for _ in range(1000):\n"
        "        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()\n"
        "        count += 1\n"
        "except (RuntimeError, MemoryError):\n"
        "    pass\n"
        "if count > 100: won(count)\n"
        "os._exit(0)\n",
        namespaces=True,
    ),
    Attack(
        "more processes than allowed",
        "import resource\nattempt(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)))",
        namespaces=True,
    ),
    Attack(
        "more memory than allowed",
        "import resource\nattempt(lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))",
    ),
    Attack("a higher priority", "attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))"),
    Attack(
        "a daemon left behind",
        "import time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for number in (0, 1, 2): os.close(number)\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n",
    ),
    Attack(
        "an orphan that holds the output",
        "import time\nif os.fork() == 0:\n    time.sleep(600)\nos._exit(0)\n",
        harm=slow,
    ),
    Attack(
        "killing everything",
        "import signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept OSError: pass",
        harm=victim_dead,
    ),
    Attack(
        "killing a neighbour", "import signal\nattempt(lambda: os.kill(W['victim'], signal.SIGKILL))", harm=victim_dead
    ),
    Attack("killing the runner", "import signal\nattempt(lambda: os.kill(W['runner'], signal.SIGKILL))"),
    Attack(
        "killing its group",
        "import signal\ntry:\n    os.killpg(0, signal.SIGTERM)\nexcept OSError: pass",
        harm=victim_dead,
    ),
    Attack(
        "killing its first process",
        "import signal\n"
        "for number in (1, os.getppid()):\n"
        "    try:\n"
        "        os.kill(number, signal.SIGKILL)\n"
        "    except OSError: pass",
    ),
    Attack(
        "rewriting its first process",
        "def go():\n"
        "    with open('/proc/1/mem', 'r+b', buffering=0) as memory:\n"
        "        start = int(open('/proc/1/maps').read().split('-')[0], 16)\n"
        "        memory.seek(start)\n"
        "        memory.write(memory.read(1))\n"
        "attempt(go)",
    ),
    Attack("ptrace of a neighbour", "attempt(lambda: syscall(101 if X86 else 117, 16, W['victim'], 0, 0))"),
    Attack(
        "ptrace of a child",
        "import time\n"
        "pid = os.fork()\n"
        "if pid == 0: time.sleep(5)\n"
        "attempt(lambda: syscall(101 if X86 else 117, 16, pid, 0, 0))\n"
        "os.kill(pid, 9)",
    ),
    Attack(
        "memory of a neighbour",
        "import ctypes\n"
        "block = ctypes.create_string_buffer(16)\n"
        "attempt(lambda: syscall(310 if X86 else 270, W['victim'], block, 0, block, 0, 0))",
    ),
    Attack(
        "descriptors of a neighbour",
        "def go():\n    handle = os.pidfd_open(W['victim'])\n    syscall(438, handle, 0, 0)\nattempt(go)",
    ),
    Attack(
        "limits of a neighbour",
        "import resource\nattempt(lambda: resource.prlimit(W['victim'], resource.RLIMIT_CPU, (1, 1)))",
    ),
    Attack("outliving the runner", "attempt(lambda: syscall(157 if X86 else 167, 1, 0, 0, 0, 0))"),
    Attack(
        "ignoring every signal",
        "import signal\n"
        "for number in signal.valid_signals():\n"
        "    try:\n"
        "        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n"
        "        pass\n"
        "while True: pass\n",
        endings=(Ending.CPU_TIME,),
    ),
    Attack("sleeping for ever", "import time\nwhile True:\n    time.sleep(100)", QUICK, endings=(Ending.WALL_TIME,)),
    Attack(
        "stopping itself", "import signal\nos.kill(os.getpid(), signal.SIGSTOP)", QUICK, endings=(Ending.WALL_TIME,)
    ),
    Attack(
        "time shared among children",
        "for _ in range(8): os.fork()\nwhile True: pass",
        SMALL,
        endings=(Ending.CPU_TIME, Ending.EXITED),
    ),
    Attack(
        "time hidden in dead children",
        "import time\n"
        "while True:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        end = time.process_time() + 0.1\n"
        "        while time.process_time() < end: pass\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)",
        SMALL,
        endings=(Ending.CPU_TIME, Ending.EXITED),
    ),
    Attack(
        "deadlock",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        QUICK,
        endings=(Ending.WALL_TIME,),
    ),
    Attack("ending inside an import", "import sys\nsys.exit(0)", endings=(Ending.EXITED,)),
    Attack("ending without cleaning up", "os._exit(0)", endings=(Ending.EXITED,)),
    Attack("a crash of the interpreter", "import ctypes\nctypes.string_at(0)", endings=(Ending.KILLED,)),
    Attack("endless recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)"),
)
