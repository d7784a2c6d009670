# SPDX-License-Identifier: Apache-2.0
"""Python as on a system that is not POSIX, as near as it can be had on one that is.

Imported before anything of omsgrain: from then on the names are gone that Windows does not have.
What other libraries make of the system they have looked up already.
"""

import asyncio  # noqa: F401
import os
import select
import shutil  # noqa: F401
import signal
import socket  # noqa: F401
import sqlite3  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile

import lmdb  # noqa: F401
import mcp  # noqa: F401
import uvicorn  # noqa: F401

MISSING = {
    os: (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_TMPFILE", "chown",
        "fchmod", "fchown", "fork", "fstatvfs", "getgid", "geteuid", "getuid", "killpg",
        "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev",
        "register_at_fork", "setsid", "statvfs", "sync", "uname", "wait",
    ),
    select: ("epoll", "poll"),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask", "setitimer"),
}  # fmt: skip

for module, names in MISSING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for absent in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[absent] = None  # type: ignore[assignment]
vars(tempfile)["_O_TMPFILE_WORKS"] = False
os.supports_dir_fd.clear()
os.supports_follow_symlinks.clear()
os.name = "elsewhere"
