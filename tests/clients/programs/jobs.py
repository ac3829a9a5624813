"""The loop of every Python program here: one JSON job a line in, one JSON answer a line out.

A job is {"verb", "bootstrap", "client_id", …}; tests/clients/driver.py has the whole vocabulary.
The answer is {"ok": …} or {"error": {"code": Kafka's error code or null, "text": …}}. Keys, values
and header values travel as base64. This file also runs in environments of old clients, so it
uses the standard library alone.
"""

import base64
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

Job = dict[str, Any]
Verb = Callable[[Job], Any]

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3


class CodedError(Exception):
    """A failure whose Kafka code is known."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code


def unpack(data: str | None) -> bytes | None:
    return None if data is None else base64.b64decode(data)


def pack(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def headers_of(record: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(header["name"], unpack(header["value"])) for header in record.get("headers") or []]


def packed_headers(headers: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": pack(value)} for name, value in headers or []]


def answer_to(job: Job, verbs: dict[str, Verb], code_of: Callable[[Exception], int | None]) -> Job:
    try:
        return {"ok": verbs[job["verb"]](job)}
    except Exception as failure:
        traceback.print_exc()
        code = failure.code if isinstance(failure, CodedError) else code_of(failure)
        return {"error": {"code": code, "text": f"{type(failure).__name__}: {failure}"}}


def serve(verbs: dict[str, Verb], code_of: Callable[[Exception], int | None]) -> None:
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line), verbs, code_of)), flush=True)
