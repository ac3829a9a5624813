"""How the steps of the set-up speak and run commands; nothing is shown unless it fails."""

import os
import subprocess


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run_or_explain(command: list[str], *, environment: dict[str, str] | None = None) -> bool:
    """Run a command quietly; its last lines are shown only when it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        say(f"`{' '.join(command)}` failed with status {done.returncode}:")
        print("\n".join(done.stdout.splitlines()[-15:]), flush=True)
    return done.returncode == 0
