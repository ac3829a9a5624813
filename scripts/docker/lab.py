"""A Docker daemon that leaves nothing behind: in namespaces of its own, with all its files in one
folder.

Its bridges, firewall rules and kernel switches belong to a network namespace, its mounts to a mount
namespace, its containers to a process namespace; all of them end with the process that entered
them. What is left is the folder and the control groups, and `clean_up` removes these. "The host"
of a test is therefore the inside of the network namespace, which has no way out: images cannot be
pulled, builds cannot fetch.
"""

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NAMESPACES: Final = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# Where the daemon keeps things that no option moves elsewhere.
FIXED_FOLDERS: Final = (Path("/etc/docker"), Path("/run/docker"))
CGROUPS: Final = Path("/sys/fs/cgroup")
SUBNET: Final = "10.78.0.1/24"
POOL: Final = "base=10.79.0.0/16,size=24"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0


def enter(folder: Path, words: list[str]) -> int:
    """Run this program with `words` inside new namespaces; gives its exit code."""
    absent = [path for path in FIXED_FOLDERS if not path.exists()]
    for path in absent:
        path.mkdir(parents=True)
    process = subprocess.Popen(
        ["unshare", *NAMESPACES, sys.executable, "-m", "scripts.docker.verify", *words]
    )
    try:
        return process.wait()
    finally:
        if process.returncode is None:
            _end(process)
        for path in absent:
            path.rmdir()
        clean_up(folder)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill `unshare`, and with it all in the namespaces; gives back when the last is gone."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    first = [os.pidfd_open(int(child)) for child in children]
    process.kill()
    process.wait()
    for descriptor in first:
        select.select([descriptor], [], [])
        os.close(descriptor)


def clean_up(folder: Path) -> None:
    for group in sorted(CGROUPS.rglob(f"{cgroup_of(folder)}*"), reverse=True):
        for inner in sorted(group.rglob("*/"), reverse=True):
            inner.rmdir()
        group.rmdir()
    shutil.rmtree(folder)


def cgroup_of(folder: Path) -> str:
    return folder.name


@contextmanager
def daemon(folder: Path) -> Iterator[None]:
    """The daemon, from inside the namespaces, while the context is open."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path in FIXED_FOLDERS:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    socket = f"unix://{folder}/docker.sock"
    command = [
        "dockerd",
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--host", socket, "--pidfile", f"{folder}/docker.pid"),
        *("--bip", SUBNET, "--default-address-pool", POOL),
        *("--cgroup-parent", cgroup_of(folder), "--storage-driver", "overlay2"),
    ]
    os.environ["DOCKER_HOST"] = socket
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_it_answers(process, folder / "dockerd.log")
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run([docker(), "version"], capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise SystemExit(f"verify: the Docker daemon did not start:\n{tail}")
        time.sleep(0.1)


def docker() -> str:
    """The client that came with the daemon, where another one stands before it in the path."""
    debian = Path("/usr/bin/docker")
    return str(debian) if debian.exists() else "docker"
