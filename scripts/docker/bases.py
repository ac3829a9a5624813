"""What images are made of where no registry is reached: root file systems from Debian's packages,
wheels from Python's index. All of it is kept in the cache, under names that change with the recipe.

Runs outside the lab, where the network is.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Final

from scripts.parts import ROOT, SPARK_LOCK, cache_dir
from scripts.setup import install_with_apt
from scripts.steps import run_or_explain, say

RELEASE: Final = "bookworm"
RELEASES_PYTHON: Final = (3, 11)
# What python:3.11-slim-bookworm has beside Debian's smallest system.
PYTHON_PACKAGES: Final = ("python3", "python3-venv", "ca-certificates")
JAVA_PACKAGES: Final = ("openjdk-17-jre-headless", "libzookeeper-java")
# It imports `packaging`, and does not ask for it.
TESTCONTAINERS: Final = ("testcontainers==4.15.0", "packaging")
DEV_LOCK: Final = ROOT / "requirements" / "dev.lock"

# Command -> the package of Debian that brings it.
TOOLS: Final = {
    "dockerd": "docker.io",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
}


def find_tools() -> None:
    missing = [package for command, package in TOOLS.items() if shutil.which(command) is None]
    if missing:
        install_with_apt(missing)
    absent = [command for command in TOOLS if shutil.which(command) is None]
    if absent:
        raise SystemExit(f"verify: these commands are missing: {', '.join(absent)}")
    if sys.version_info[:2] != RELEASES_PYTHON:
        wanted = ".".join(map(str, RELEASES_PYTHON))
        raise SystemExit(f"verify: wheels for the image need an environment of Python {wanted}.")


def _cached(name: str, recipe: str) -> Path:
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    folder = cache_dir() / "docker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{digest}"


def _run(command: list[str], *, environment: dict[str, str] | None = None) -> None:
    if not run_or_explain(command, environment=environment):
        raise SystemExit("verify: cannot go on")


def python_base() -> Path:
    """A tar of a Debian with Python: what stands in for python:3.11-slim-bookworm."""
    archive = _cached("python.tar", f"{RELEASE} {PYTHON_PACKAGES}")
    if not archive.exists():
        say(f"making a Debian {RELEASE} with Python by debootstrap")
        with tempfile.TemporaryDirectory() as folder:
            included = f"--include={','.join(PYTHON_PACKAGES)}"
            _run(["debootstrap", "--variant=minbase", included, RELEASE, folder])
            _pack(Path(folder), archive)
    return archive


def java_base() -> Path:
    """The same with Java and ZooKeeper's jars."""
    recipe = f"{RELEASE} {PYTHON_PACKAGES} {JAVA_PACKAGES}"
    archive = _cached("java.tar", recipe)
    if not archive.exists():
        say(f"adding {' '.join(JAVA_PACKAGES)} to it")
        with tempfile.TemporaryDirectory() as folder:
            _run(["tar", "-C", folder, "-xf", str(python_base())])
            # Java's set-up needs /proc, which is mounted for as long as the shell lives.
            shell = (
                'mount -t proc proc "$0/proc" && chroot "$0" apt-get update -qq && '
                'chroot "$0" apt-get install -y -qq --no-install-recommends "$@"'
            )
            quietly = {"DEBIAN_FRONTEND": "noninteractive"}
            unshared = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", shell]
            _run([*unshared, folder, *JAVA_PACKAGES], environment=quietly)
            _pack(Path(folder), archive)
    return archive


def _pack(root: Path, archive: Path) -> None:
    for folder, pattern in (("var/cache/apt/archives", "*.deb"), ("var/lib/apt/lists", "*")):
        for path in (root / folder).glob(pattern):
            if path.is_file():
                path.unlink()
    partial = archive.with_suffix(".partial")
    _run(["tar", "-C", str(root), "-cf", str(partial), "."])
    partial.rename(archive)


def broker_wheels() -> Path:
    """What the broker's image installs, with what builds the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    return _wheels("wheels", [*wanted, "--constraint", str(DEV_LOCK)], DEV_LOCK.read_text())


def spark_wheels() -> Path:
    lock = SPARK_LOCK.read_text()
    return _wheels("spark-wheels", ["--no-deps", "--requirement", str(SPARK_LOCK)], lock)


def _wheels(name: str, wanted: list[str], lock: str) -> Path:
    folder = _cached(name, f"{wanted} {lock}")
    if not folder.exists():
        say(f"fetching {name}")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        # Spark comes as a source: PEP 517 builds it with tools of its own, whatever is installed.
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--use-pep517"]
        _run([*pip, "--wheel-dir", str(partial), *wanted])
        partial.rename(folder)
    return folder


def testcontainers_python() -> Path:
    """A Python with testcontainers and a Kafka client: neither is a dependency of the project."""
    folder = _cached("testcontainers", f"{TESTCONTAINERS} {DEV_LOCK.read_text()}")
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        say(f"installing {' '.join(TESTCONTAINERS)}")
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--constraint", str(DEV_LOCK)]
        _run([*pip, *TESTCONTAINERS, "confluent-kafka"])
        (folder / "complete").touch()
    return python


def build_context(folder: Path, wheels: Path) -> Path:
    """The project's files and wheels, as `docker build` is given them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(wheels, folder / "wheels")
    return folder
