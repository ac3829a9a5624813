"""CRC-32C, the checksum of every record batch, by the processor's own instruction.

Only the compiled part of the package `crc32c` is loaded: its front also imports a command line and
looks up its own version, which takes as long as a tenth of a broker's start.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final

_COMPILED: Final = "_crc32c"


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    parts = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(_COMPILED, parts) if parts else None
    if spec is None or spec.loader is None:  # a version that is made otherwise
        import crc32c as whole

        return whole.crc32c
    compiled = module_from_spec(spec)
    spec.loader.exec_module(compiled)
    of_bytes: Callable[..., int] = compiled.crc32c
    return of_bytes


crc32c: Final = _load()
