"""The programs in our pages: blocks of Python that begin with the name of a file."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


def programs_in(page: str) -> dict[str, str]:
    """The text of each program of a page, by the name it gives itself."""
    return dict(PROGRAM.findall((ROOT / page).read_text()))
