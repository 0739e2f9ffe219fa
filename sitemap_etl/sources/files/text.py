"""The text of an export as blocks of UTF-8 bytes: decompressed, decoded, with escapes replaced by doubled quotes."""

from __future__ import annotations

import codecs
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files import unverified
from sitemap_etl.sources.files.escapes import Escapes, leading_of
from sitemap_etl.sources.files.files import File, reading, translated
from sitemap_etl.sources.files.quotes import boundaries, find_turns

BLOCK_BYTES: Final = 2 * 1024 * 1024
"""Bytes parsed at a time."""
_UNPACKED: Final = 5
"""Estimated decompressed bytes per compressed byte, for combining small files into a split."""
_STREAMS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_PACKED: Final = (*_STREAMS, ".xz", ".zip")
_DAMAGED: Final = (
    pa.ArrowException,
    OSError,
    EOFError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
)
"""Errors of decompression. zipfile raises RuntimeError for a password and NotImplementedError for other methods."""
GZIP: Final = b"\x1f\x8b"
"""How data begins that is compressed with gzip."""
_SHOWN: Final = 200
_SEPARATOR: Final = re.compile(r'"?sep=([ -~\t\x01\x1f])"?(?:\r\n|\n|\r|\Z)', re.IGNORECASE)
_SEPARATOR_BYTES: Final = 16

Read = Callable[[int], bytes]
"""Function that returns about the requested number of next bytes, or none at the end."""


def packed(*suffixes: str) -> tuple[str, ...]:
    """Return these suffixes, and the suffixes of the same files compressed."""
    return tuple(suffix + end for suffix in suffixes for end in ("", *_PACKED))


def _is_packed(path: str) -> bool:
    """Return True if a file is compressed, by its name."""
    return PurePath(path).suffix.lower() in _PACKED


def bundled(files: Sequence[File], split_bytes: int) -> list[tuple[str, list[File]]]:
    """Divide the files in order into splits, and return each with its label. Small files share one."""
    sizes = [file.size * (_UNPACKED if _is_packed(file.path) else 1) for file in files]
    bound = max(split_bytes, sum(sizes) // limits.SPLITS_PER_SECTION)
    bundles: list[list[File]] = []
    held = 0
    for file, size in zip(files, sizes, strict=True):
        if not bundles or held + size > bound:
            bundles.append([])
            held = 0
        bundles[-1].append(file)
        held += size
    while len(bundles) > limits.SPLITS_PER_SECTION:
        bundles = [bundles[at] + (bundles[at + 1] if at + 1 < len(bundles) else []) for at in range(0, len(bundles), 2)]
    return [
        (bundle[0].path if len(bundle) == 1 else f"{bundle[0].path} and {len(bundle) - 1} more", bundle)
        for bundle in bundles
    ]


class Blocks:
    """The text as a stream for a parser. Its beginning can be examined before it is read.

    `form`: the format, for CSV.
    """

    def __init__(self, read: Read, form: CsvFormat | None = None) -> None:
        self.closed = False
        self.form = form
        self._read = read
        self._first = b""
        self._reading = Lock()
        self._ended = False

    def peek(self) -> bytes:
        """Return about the first `BLOCK_BYTES` of the unread text, fewer only at its end."""
        while len(self._first) < BLOCK_BYTES and (more := self._read(BLOCK_BYTES)):
            self._first += more
        return self._first

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`, because Arrow copies them into memory of that size."""
        with self._reading:
            data = b"" if self._ended else self._first or self._read(size)
            self._first = data[size:] if 0 <= size < len(data) else b""
            return data[:size] if self._first else data

    def end(self) -> None:
        """Let every later read be at the end, and wait for one that is under way.

        Arrow's threads read ahead. If one of them did so while the interpreter ends, the process would abort.
        """
        with self._reading:
            self._ended = True

    def keep_mark(self) -> None:
        """Keep a byte order mark that belongs to the first value. Arrow drops the first mark of a stream."""
        if self.peek().startswith(codecs.BOM_UTF8):
            self._first = codecs.BOM_UTF8 + self._first

    def close(self) -> None:
        """Mark the stream as closed. The underlying stream is left open for its owner."""
        self.closed = True


@contextmanager
def blocks(file: File, form: CsvFormat | None = None) -> Iterator[Blocks]:
    """Open the text of a file. `form`: the format, for CSV.

    Reading raises InvalidSource for text in another encoding, with its line, and for damaged compression; Refused;
    Unavailable.
    """
    with _unpacked(file) as unpacked:
        read = _once(unpacked, file) if PurePath(file.path).suffix.lower() == ".gz" else unpacked
        if form is not None and form.encoding != "utf-8":
            read = _Decoded(read, form.encoding, file.path).read
        read = _Unmarked(read).read
        if form is None:
            yield Blocks(read)
            return
        written = Blocks(read)
        read = written.read
        own = own_delimiter(written.peek())
        if own is not None and form.delimiter == CsvFormat.model_fields["delimiter"].default:
            form = form.model_copy(update={"delimiter": own})
        if form.quoting is not None and form.escaping is not None:
            read = _Unescaped(read, form.quoting, form.escaping, form.delimiter).read
        if form.escaping_unquoted is not None:
            read = Escapes(read, form.escaping_unquoted, form.delimiter).read
        yield Blocks(read, form)


def separator_line(text: str) -> int:
    """Return the length of the line `sep=;` that Excel writes before the first row, or 0."""
    found = _SEPARATOR.match(text)
    return 0 if found is None else found.end()


def own_delimiter(beginning: bytes) -> str | None:
    """Return the delimiter from such a line, or None."""
    found = _SEPARATOR.match(beginning[:_SEPARATOR_BYTES].decode("latin-1"))
    return None if found is None else found[1]


@contextmanager
def _unpacked(file: File) -> Iterator[Read]:
    """Open a file and decompress its bytes."""
    suffix = PurePath(file.path).suffix.lower()

    def whole(read: Read) -> Read:
        def asked(size: int) -> bytes:
            try:
                return read(size)
            except _DAMAGED as error:
                problem = translated(error, file.path)
                raise (_gzip_fault(file, error) if suffix == ".gz" else None) or problem from error

        return asked

    with reading(file, stream=suffix != ".zip") as raw:
        if suffix == ".gz" and not file.verify:
            yield whole(unverified.gunzip(raw.read))
        elif suffix in _STREAMS:
            with pa.CompressedInputStream(raw, _STREAMS[suffix]) as stream:
                yield whole(stream.read)
        elif suffix == ".xz":
            with lzma.open(raw) as packed_:
                yield whole(packed_.read)
        elif suffix == ".zip":
            try:
                with zipfile.ZipFile(raw) as archive, archive.open(_only(archive, file)) as member:
                    yield whole(member.read)
            except _DAMAGED as error:
                raise translated(error, file.path) from error
        else:
            yield whole(raw.read)


def _once(read: Read, file: File) -> Read:
    """Return the stream, which raises `InvalidSource` if its unpacked bytes are compressed with gzip again."""
    began = False

    def checked(size: int) -> bytes:
        nonlocal began
        data = read(size)
        if not began and data.startswith(GZIP):
            name = PurePath(file.path).name
            raise InvalidSource(
                f"{file.path} is compressed with gzip more than once: unpack it, with  gzip -dc {name} > once-{name}"
            )
        began = True
        return data

    return checked


def _gzip_fault(file: File, error: BaseException) -> InvalidSource | None:
    """Return the damage of a file that gzip can't unpack, or None if the file can't be read."""
    if not isinstance(translated(error, file.path), InvalidSource):
        return None
    name = PurePath(file.path).name
    with reading(file, stream=True) as stream:
        packed_ = stream.read(len(GZIP)) == GZIP
    if not packed_:
        return InvalidSource(f"{file.path} is not compressed with gzip, as its name says: rename it to {name[:-3]}")
    if re.search(r"header|compression method", str(error)):
        return InvalidSource(
            f"{file.path} has other bytes behind its compressed data, such as padding: compress it again, with  "
            f"gzip -dcq {name} | gzip > new.gz"
        )
    detail = str(error).partition(". Detail:")[0]
    return InvalidSource(f"{file.path} can't be read: it is damaged or cut off ({detail}). Export or copy it again")


def _only(archive: zipfile.ZipFile, file: File) -> zipfile.ZipInfo:
    """Return the only file in an archive. Raise InvalidSource if there is none or several."""
    names = [
        name
        for name in archive.namelist()
        if not name.endswith("/") and not any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
    ]
    if len(names) != 1:
        shown = ", ".join(names[:5]) or "none"
        raise InvalidSource(f"{file.path}: expected one file in the ZIP archive, found {len(names)} ({shown})")
    member = archive.getinfo(names[0])
    return member if file.verify else unverified.without_sum(member)


class _Decoded:
    """Text in another encoding, converted to UTF-8."""

    def __init__(self, read: Read, encoding: str, path: str) -> None:
        self._read = read
        self._encoding = encoding
        self._path = path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line = 1

    def read(self, size: int) -> bytes:
        while True:
            data = self._read(size)
            try:
                text = self._decoder.decode(data, not data)
            except UnicodeDecodeError as error:
                raise self._unlike(error) from error
            except UnicodeError as error:  # no byte order mark where the encoding needs one
                raise InvalidSource(f"{self._path} is not {self._encoding} ({error}). Correct `encoding:`") from error
            if text or not data:
                self._line += text.count("\n")
                return text.encode("utf-8", "surrogatepass")

    def _unlike(self, error: UnicodeDecodeError) -> InvalidSource:
        found: Any = error.object
        line = self._line + found[: error.start].count(b"\n")
        shown = bytes(found[max(0, error.start - 20) : error.start + 20])
        return InvalidSource(
            f"{self._path} line {line} is not {self._encoding} ({error.reason}): {shown!r}. Correct `encoding:`"
        )


class _Unmarked:
    """Text without a byte order mark, so that a quote after it is at the beginning of a value."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._began = False

    def read(self, size: int) -> bytes:
        if self._began:
            return self._read(size)
        self._began = True
        data = b""
        while len(data) <= len(codecs.BOM_UTF8) and (more := self._read(size)):
            data += more
        return data.removeprefix(codecs.BOM_UTF8)


class _Unescaped:
    r"""CSV in which quotes inside quoted values follow an escape character (`\"`), converted to doubled quotes (`""`).

    Spark, PostgreSQL and Hadoop write this format. Inside quoted values, an escape precedes a quote or an escape;
    elsewhere, it is text. A quote only opens a value at the value's beginning.
    """

    def __init__(self, read: Read, quote: str, escape: str, delimiter: str) -> None:
        self._read = read
        self._quote, self._escape = ord(quote), ord(escape)
        self._boundaries = boundaries(delimiter)
        self._inside = False  # True if the next block begins inside quotes
        self._last = ord("\n")  # byte of the last block
        self._held = b""  # escapes and quotes at the end of the last block, whose meaning depends on the next one

    def read(self, size: int) -> bytes:
        while True:
            data = self._read(size)
            text = self._held + data
            undecided = bytes([self._escape, self._quote]) if data else bytes([self._escape])
            done = text.rstrip(undecided)
            self._held = text[len(done) :] if data else b""
            if not data:
                return (self._standard(done) if done else b"") + text[len(done) :]
            if done:
                return self._standard(done)

    def _standard(self, text: bytes) -> bytes:
        """Convert a block to RFC 4180. It must not end with an escape or between two quotes."""
        found = np.frombuffer(text, np.uint8)
        quotes = found == self._quote
        escapes = np.flatnonzero(found == self._escape)
        leading = leading_of(escapes)
        before_quote = leading[quotes[leading + 1]]
        before_escape = leading[found[leading + 1] == self._escape]
        quotes[before_quote + 1] = False
        inside = self._inside
        turns = find_turns(np.flatnonzero(quotes), found, self._boundaries, before=self._last, inside=inside)
        if len(turns.opened):
            self._inside = bool(turns.opened[-1])
        self._last = text[-1]
        if not len(escapes):
            return text

        def within(places: np.ndarray) -> np.ndarray:
            after = np.append(inside, turns.opened)[np.searchsorted(turns.first, places)]
            chosen: np.ndarray = places[after]
            return chosen

        out = found.copy()
        out[within(before_quote)] = self._quote
        return np.delete(out, within(before_escape)).tobytes()
