"""Find the rows of MySQL's text protocol in whole buffers from the network.

A packet has three bytes of length (little-endian), a sequence number, and that many bytes. A row is a packet with a
length and text for each value. A length is one byte up to 250; 251 means null; 252 and 253 precede two and three bytes
of length. A packet that begins with 254 ends the result; 255 is an error.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html

Each packet's start depends on the previous packet. This chain is followed by doubling instead of single steps, so no
Python runs once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sitemap_etl.frozen import Frozen

HEADER: Final = 4
MARGIN: Final = 32
"""Bytes after the last received one, so that this many bytes of every value can be read."""
_BUFFER_BYTES: Final = 4 * 1024 * 1024
_LONGEST: Final = 0xFFFFFF
"""Length of a packet that continues in the next one."""
_NULL, _TWO, _THREE, _END = 0xFB, 0xFC, 0xFD, 0xFE

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Broken(Exception):
    """Error about bytes that are not the text protocol, or about a row that is too long. The text says which."""


class Lost(Exception):
    """The connection ended before the result did."""


class ServerError(Exception):
    """An error instead of the next row. `packet`: its content."""

    def __init__(self, packet: bytes) -> None:
        super().__init__(packet)
        self.packet = packet


class Values(Frozen):
    """A column in a buffer: where each value begins, its length in bytes, and which are null (of length 0).

    Behind the last value there are `MARGIN` bytes at least.
    """

    data: Bytes
    starts: Places
    lengths: Places
    null: NDArray[np.bool_] | None  # None: no value is


def blocks(read: Callable[[int], bytes], columns: int) -> Generator[list[Values], None, int]:
    """Yield the columns of some megabytes of rows at a time, valid until the next ones are requested.

    `read`: returns at most this many bytes as soon as there are any, or none after the connection ended. Memory: one
    buffer of 4 MB, or the size of the largest row. Raise Broken, Lost, ServerError, and errors of `read`.
    """
    data = np.zeros(_BUFFER_BYTES, np.uint8)
    held = at = 0  # bytes in the buffer, and where the first header that was not followed yet is
    found: list[Places] = []
    while True:
        if held + MARGIN >= len(data):
            if found:
                yield _columns(data, np.concatenate(found), columns)
                found = []
            else:
                data = np.concatenate([data, np.zeros_like(data)])
            data[: held - at] = data[at:held].copy()
            held, at = held - at, 0
        came = read(len(data) - MARGIN - held)
        if not came:
            raise Lost
        data[held : held + len(came)] = np.frombuffer(came, np.uint8)
        held += len(came)
        starts, at = packets(data[:held], at)
        if not len(starts):
            continue
        last = np.flatnonzero(data[starts + HEADER] >= _END)
        found.append(starts[: last[0]] if len(last) else starts)
        if len(last):
            if sum(map(len, found)):
                yield _columns(data, np.concatenate(found), columns)
            end = int(starts[last[0]]) + HEADER
            if data[end] != _END:
                raise ServerError(data[end : end + _length(data, end - HEADER)].tobytes())
            return int.from_bytes(data[end + 1 : end + 3].tobytes(), "little")


def packets(data: Bytes, at: int) -> tuple[Places, int]:
    """Return the starts of the complete packets from `at` on, headers included, and the start of the first incomplete
    one.

    Raise Broken for a packet of 16 MB, which continues in the next one.
    """
    size = len(data)
    if at + HEADER > size or at + HEADER + _length(data, at) > size:
        return np.empty(0, np.int64), at
    # Most packets are shorter than 64 KB: the third byte of their header is 0, as few other bytes are.
    likely = np.flatnonzero(data[at + 2 : size - 1] == 0) + at
    after = likely + HEADER + data[likely] + (data[likely + 1].astype(np.int64) << 8)
    behind = np.searchsorted(likely, after)
    known = np.append(likely, -1)[behind] == after
    follow = np.append(np.where(known, behind, len(likely)), len(likely))
    runs: list[Places] = []
    while at + HEADER <= size:
        if data[at + 2]:
            length = _length(data, at)
            if length == _LONGEST:
                raise Broken("a row is longer than 16 MB; leave its large columns out of the SELECT")
            if at + HEADER + length > size:
                break
            runs.append(np.array([at]))
            at += HEADER + length
            continue
        run = likely[_chain(follow, int(np.searchsorted(likely, at)))]
        end = int(run[-1]) + HEADER + _length(data, int(run[-1]))
        whole = end <= size
        runs.append(run if whole else run[:-1])
        at = end if whole else int(run[-1])
        if not whole:
            break
    return np.concatenate(runs), at


def _chain(follow: Places, first: int) -> Places:
    """Return `first` and its successors in `follow`, up to the last index, which follows itself."""
    end = len(follow) - 1
    chain = np.array([first])
    while chain[-1] != end:  # `follow` takes as many steps at once as the chain is long
        chain = np.concatenate([chain, follow[chain]])
        follow = follow[follow]
    return np.asarray(chain[chain != end])


def _length(data: Bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3].tobytes(), "little")


def _columns(data: Bytes, starts: Places, columns: int) -> list[Values]:
    """Return the values of these rows, column by column."""
    at = starts + HEADER
    found = []
    for _ in range(columns):
        first = data[at]
        lengths = first.astype(np.int64)
        at = at + 1
        null = None
        if int(first.max()) >= _NULL:
            null = first == _NULL
            lengths[null] = 0
            for mark, count in ((_TWO, 2), (_THREE, 3)):
                of = np.flatnonzero(first == mark)
                places = at[of]
                lengths[of] = sum(data[places + byte].astype(np.int64) << 8 * byte for byte in range(count))
                at[of] += count
        found.append(Values(data, at, lengths, null))
        at = at + lengths
        if int(at.max()) > len(data):
            break
    ends = starts + HEADER + data[starts] + (data[starts + 1].astype(np.int64) << 8)
    ends += data[starts + 2].astype(np.int64) << 16
    if len(found) < columns or (at != ends).any():
        raise Broken("its answer is not what the protocol says of rows")
    return found
