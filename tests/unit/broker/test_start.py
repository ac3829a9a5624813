"""What a broker's start leaves for later: modules that take long to import and that few need."""

import json
import subprocess
import sys

_LATER = ("argparse", "ctypes", "email", "importlib.metadata", "kazoo", "multiprocessing.context")
_PROGRAM = """
import json, sys
import odradek.broker.main, odradek.broker.process
print(json.dumps(sorted(sys.modules)))
"""


def test_a_start_imports_nothing_that_only_a_cluster_a_cleaner_or_a_tool_needs():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    imported = json.loads(done.stdout)

    assert "odradek.broker.broker" in imported
    assert [name for name in _LATER if name in imported] == []
