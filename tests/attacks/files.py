"""Attacks on files: secrets to read, places to write, disks to fill."""

from __future__ import annotations

import os
from pathlib import Path

from services.core.scoring.ports import Execution, Limits
from tests.attacks.attack import QUICK, Attack
from tests.attacks.world import World

WRITING = Limits(cpu_seconds=3.0, wall_seconds=6.0, memory_bytes=600 << 20)


def folder_changed(world: World, done: Execution) -> str:
    strange = sorted({path.name for path in world.folder.iterdir()} - {"answers.txt", "home", "socket", "datagram"})
    return f"it left {', '.join(strange)}" if strange else ""


def shared_memory_changed(world: World, done: Execution) -> str:
    return "it wrote to /dev/shm" if Path("/dev/shm/trinity-attack").exists() else ""


def core_left(world: World, done: Execution) -> str:
    return "it left a core file" if any(path.name.startswith("core") for path in Path.cwd().iterdir()) else ""


def temporary_changed(world: World, done: Execution) -> str:
    return "it wrote to /tmp" if os.path.lexists("/tmp/trinity-attack") else ""


def fill(folder: str, most: int) -> str:
    return (
        "total = 0\n"
        "try:\n"
        "    for number in range(100):\n"
        f"        with open(f'{folder}/fill{{number}}', 'wb', buffering=0) as file:\n"
        "            for _ in range(60):\n"
        "                total += file.write(b'x' * (1 << 20))\n"
        f"                if total > {most} << 20:\n"
        "                    won(f'{total} bytes')\n"
        "                    sys.exit()\n"
        "except OSError as error:\n"
        "    print(total, error)\n"
    )


ATTACKS = (
    Attack("key in the environment", "if W['secret'] in str(os.environ) or W['variable'] in os.environ: won()"),
    Attack(
        "key in the environment of another process",
        "for number in os.listdir('/proc') if os.path.isdir('/proc') else []:\n"
        "    try:\n"
        "        if W['secret'].encode() in open(f'/proc/{number}/environ', 'rb').read(): won(number)\n"
        "    except OSError:\n"
        "        pass\n",
    ),
    Attack("/etc/shadow", "attempt(lambda: open('/etc/shadow').read())"),
    Attack("/etc/passwd", "attempt(lambda: open('/etc/passwd').read())"),
    Attack("secret in a home", "attempt(lambda: open(W['home'] + '/.key').read())"),
    Attack("answers that every user may read", "attempt(lambda: open(W['answers']).read())"),
    Attack(
        "answers through another process's root",
        "for number in [W['runner'], W['victim'], 1, os.getppid()]:\n"
        "    for way in ('root', 'cwd'):\n"
        "        try:\n"
        "            if W['secret'] in open(f\"/proc/{number}/{way}{W['answers']}\").read(): won(f'{number}/{way}')\n"
        "        except OSError:\n"
        "            pass\n",
    ),
    Attack(
        "answers through a hard link",
        "def go():\n    os.link(W['answers'], '/tmp/here')\n    open('/tmp/here').read()\nattempt(go)",
    ),
    Attack(
        "answers through a file handle",
        "import ctypes\nattempt(lambda: syscall(304 if X86 else 265, -100, ctypes.create_string_buffer(64), 0))",
    ),
    Attack(
        "a link to /etc/shadow as result",
        "def go():\n    os.symlink('/etc/shadow', 'result.json')\n    open('result.json').read()\nattempt(go)",
    ),
    Attack("our own code", "attempt(lambda: open(W['product'] + '/services/sandbox/seccomp.py').read())"),
    Attack(
        "packages of our environment",
        "import importlib\n"
        "for name in ('numpy', 'torch', 'litellm', 'pytest', 'services', 'pip'):\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ImportError:\n"
        "        continue\n"
        "    won(name)\n"
        "for folder, folders, files in os.walk('/'):\n"
        "    if 'site-packages' in folder and files: won(folder)\n",
    ),
    Attack("writing outside", "attempt(lambda: open(W['folder'] + '/was-here', 'w').write('x'))", harm=folder_changed),
    Attack("deleting outside", "attempt(lambda: os.remove(W['answers']))"),
    Attack("the permissions of others", "attempt(lambda: os.chmod(W['folder'], 0))"),
    Attack("own permissions", "attempt(lambda: os.chmod('/program/main.py', 0o777))"),
    Attack("writing to /etc", "attempt(lambda: open('/etc/trinity-attack', 'w'))"),
    Attack("writing to the root", "attempt(lambda: open('/trinity-attack', 'w'))"),
    Attack("writing to the standard library", "attempt(lambda: open(os.__file__, 'a'))"),
    Attack("writing into its folder", "attempt(lambda: open('/program/other.py', 'w'))"),
    Attack(
        "the machine's /tmp",
        "try:\n    open('/tmp/trinity-attack', 'w').write('x')\nexcept OSError: pass",
        harm=temporary_changed,
    ),
    Attack(
        "the machine's /dev/shm",
        "try:\n    open('/dev/shm/trinity-attack', 'w').write('x')\nexcept OSError: pass",
        harm=shared_memory_changed,
    ),
    Attack("a disk as device", "attempt(lambda: os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0)))"),
    Attack("kernel settings", "attempt(lambda: open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x'))"),
    Attack("magic keys", "attempt(lambda: open('/proc/sysrq-trigger', 'w').write('b'))"),
    Attack("filling /tmp", fill("/tmp", 140), WRITING),
    Attack("filling /dev/shm", fill("/dev/shm", 80), WRITING),
    Attack("filling /program", fill("/program", 1), WRITING),
    Attack("one large file", "attempt(lambda: os.truncate(os.open('/tmp/large', 66), 1 << 33))"),
    Attack("writing to its input", "attempt(lambda: os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x' * 100))"),
    Attack("leaving a core file", "os.abort()", harm=core_left),
    Attack("a result that blocks its reader", "try:\n    os.mkfifo('result.json')\nexcept OSError: pass", QUICK),
)
