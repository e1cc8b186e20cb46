"""Reads the body of an HTTP request, in one piece or in chunks, as far as API Gateway would take it."""

from __future__ import annotations

import re
from collections.abc import Callable
from email.message import Message
from io import BufferedIOBase

LIMIT = 10 * 1024 * 1024  # bytes: API Gateway takes no more
LINE = 8192  # bytes: a chunk's size, or a trailer


class Refusal(Exception):
    """A request that never reaches the app: its status, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_body(headers: Message, stream: BufferedIOBase, let_it_come: Callable[[], None]) -> bytes | None:
    """Return the body that follows the headers, or None when they promise none.

    `let_it_come` is called once the headers are found good and before anything is read. Raises Refusal: 400
    for a malformed request, 413 for more than 10 MB, of which no more than that is read, 501 for a coding
    other than chunked.
    """
    lengths = set(headers.get_all("Content-Length", []))
    codings = headers.get_all("Transfer-Encoding", [])
    if codings:
        if lengths:
            raise Refusal(400, "Content-Length: a body in chunks has none")
        if [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise Refusal(501, f"Transfer-Encoding: {', '.join(codings)} is not supported; chunked is")
        let_it_come()
        return _chunks(stream)
    if not lengths:
        return None
    length = lengths.pop().strip()
    if lengths or not re.fullmatch("[0-9]+", length):
        raise Refusal(400, "Content-Length: it must be one whole number")
    if len(length) > 15 or int(length) > LIMIT:
        raise Refusal(413, f"body: it has {length[:20]} bytes, more than {LIMIT}")
    let_it_come()
    return _exactly(stream, int(length))


def _chunks(stream: BufferedIOBase) -> bytes:
    body = bytearray()
    while size := _chunk_size(stream):
        if len(body) + size > LIMIT:
            raise Refusal(413, f"body: it has more than {LIMIT} bytes")
        body += _exactly(stream, size)
        if _line(stream):
            raise Refusal(400, "body: a chunk is longer than its size")
    while _line(stream):  # trailers, which nobody here reads
        pass
    return bytes(body)


def _chunk_size(stream: BufferedIOBase) -> int:
    size = _line(stream).partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
        raise Refusal(400, "body: a chunk begins with its size in hexadecimal")
    return int(size, 16)


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(LINE)
    if not line.endswith(b"\n"):
        raise Refusal(400, "body: it ends early, or a line in it is too long")
    return line.rstrip(b"\r\n")


def _exactly(stream: BufferedIOBase, length: int) -> bytes:
    read = stream.read(length)
    if len(read) < length:
        raise Refusal(400, "body: it ends early")
    return read
