"""What a result was measured on, in words that tell this machine from another."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from confluent_kafka import libversion


def describe() -> dict[str, Any]:
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gb": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "librdkafka": libversion()[0],
        "java": _first_line("java", "-version"),
        "go": _first_line("go", "version"),
        "commit": _first_line("git", "rev-parse", "--short", "HEAD"),
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def _field(table: str, name: str) -> str:
    for line in Path(table).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return "none"
    return (done.stdout + done.stderr).strip().partition("\n")[0] or "none"
