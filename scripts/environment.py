"""Make the virtual environment: `environment.py runtime` or `environment.py dev`.

Runs on the bare Python that find-python chose, so it uses the standard library alone.
`runtime` installs Odradek with the ranges of pyproject.toml; `dev` first installs the exact
versions of requirements/dev.lock, so that tests meet the same packages everywhere.

A stamp file in the environment holds a digest of what was installed; when it still agrees, the
script ends at once. A file lock lets several `make` commands share one environment.
"""

import fcntl
import hashlib
import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
PIP = ENVIRONMENT / "bin" / "pip"
TURNSTILE = ROOT / "build" / "environment.lock"
LOCK_FILE = ROOT / "requirements" / "dev.lock"
KINDS = ("runtime", "dev")


def digest_of_packaging(kind: str) -> str:
    """What the installation depends on; linter and test settings do not count."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    relevant = {
        "project": project["project"],
        "build": project["build-system"],
        "setuptools": project["tool"]["setuptools"],
        "lock": LOCK_FILE.read_text() if kind == "dev" else "",
        "root": str(ROOT),
    }
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


def stamp(kind: str) -> Path:
    return ENVIRONMENT / f".installed-{kind}"


def is_installed(kind: str) -> bool:
    """True when this kind, or the larger dev kind that includes it, is in place."""
    return any(
        stamp(made).exists() and stamp(made).read_text() == digest_of_packaging(made)
        for made in KINDS[KINDS.index(kind) :]
    )


def pip(*arguments: str) -> None:
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*command, *arguments], check=True)


def install(kind: str) -> None:
    if not (PYTHON.exists() and PIP.exists()):
        print("setup: making the virtual environment .venv", flush=True)
        venv.create(ENVIRONMENT, with_pip=True, clear=True)  # an interrupted one starts anew
    if kind == "dev":
        print("setup: installing the packages of requirements/dev.lock", flush=True)
        pip("--requirement", str(LOCK_FILE))
    print("setup: installing odradek", flush=True)
    pip("--editable", str(ROOT))
    stamp(kind).write_text(digest_of_packaging(kind))


def main() -> int:
    kind = sys.argv[1] if len(sys.argv) == 2 else ""
    if kind not in KINDS:
        print(f"usage: environment.py {'|'.join(KINDS)}", file=sys.stderr)
        return 2
    if is_installed(kind):
        return 0
    TURNSTILE.parent.mkdir(exist_ok=True)
    with TURNSTILE.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if is_installed(kind):
            return 0
        try:
            install(kind)
        except subprocess.CalledProcessError as failure:
            print(f"setup: pip failed with status {failure.returncode}.", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
