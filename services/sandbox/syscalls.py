"""The system calls that a sandboxed program is refused, by architecture.

The list is of calls that reach out of the sandbox, that hold memory the watchdog cannot see, or that have a history of
holes in the kernel and no use in a program that computes. Anything newer than this list does not exist in the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass

NEWEST_REVIEWED = 462  # mseal, Linux 6.10

# name: number on x86_64, number on aarch64 (None: no such call there)
REFUSED: dict[str, tuple[int, int | None]] = {
    # The network. A connected pair of streams stays possible: asyncio and multiprocessing wake themselves up with one.
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "accept4": (288, 242),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "sendmmsg": (307, 269),
    "recvmmsg": (299, 243),
    # Namespaces, mounts and ways around paths.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Wide interfaces of the kernel.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "personality": (135, 92),
    # Memory that belongs to no process, which the watchdog therefore does not see.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "vmsplice": (278, 75),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    # The machine. The kernel refuses most of these without privileges; a second refusal costs nothing.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "ioperm": (173, None),
    "iopl": (172, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}

# Without namespaces also: new processes, and what needs only the right user, such as changing a file's permissions.
WITHOUT_NAMESPACES: dict[str, tuple[int, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "setsid": (112, 157),
    "setpgid": (109, 154),
}


@dataclass(frozen=True)
class Architecture:
    """What a filter must know of a machine.

    Attributes:
        audit: its AUDIT_ARCH constant.
        column: its place in the tables above.
        clone, clone3, ioctl, prctl, prlimit, socketpair: numbers of the calls whose arguments decide.
    """

    audit: int
    column: int
    clone: int
    clone3: int
    ioctl: int
    prctl: int
    prlimit: int
    socketpair: int


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 0, clone=56, clone3=435, ioctl=16, prctl=157, prlimit=302, socketpair=53),
    "aarch64": Architecture(0xC00000B7, 1, clone=220, clone3=435, ioctl=29, prctl=167, prlimit=261, socketpair=199),
}
