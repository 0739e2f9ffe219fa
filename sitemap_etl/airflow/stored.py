"""Reports of runs under `work`, read within a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from typing import Final, TypeVar

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.state import layout
from sitemap_etl.state.records import PastRuns
from sitemap_etl.state.store import parse_document
from sitemap_etl.storage import Storage, open_storage

SECONDS: Final = 10
"""Seconds that a page waits for files under `work`."""
_AT_ONCE: Final = 16
_T = TypeVar("_T")
log = logging.getLogger(__name__)


class NotRead(Exception):
    """Failure to read a file under `work`. Its text is for the reader of the page."""


class NotThere(NotRead):
    """Missing file: this machine has another folder there, or no run has ended."""


def read_past_runs(addresses: Iterable[str]) -> dict[str, PastRuns | NotRead]:
    """Return the last runs of the sites at these addresses (`<work>/<name>`), all of them at once."""
    return _in_time({address: partial(_past_runs, address) for address in addresses})


def read_page(address: str, key: str) -> bytes | NotRead | None:
    """Return a page of the reports at an address, or None if it does not exist."""
    return _in_time({address: partial(_get, address, key)})[address]


def _in_time(asked: Mapping[str, Callable[[], _T]]) -> dict[str, _T | NotRead]:
    """Return the result of each function, or its error. Functions that take too long continue, and are ignored."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    asking = {name: pool.submit(ask) for name, ask in asked.items()}
    wait(asking.values(), SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    found: dict[str, _T | NotRead] = {}
    for name, answer in asking.items():
        if not answer.done() or answer.cancelled():
            found[name] = NotRead(f"{name} did not answer within {SECONDS} seconds")
            continue
        error = answer.exception()
        found[name] = answer.result() if error is None else _why(name, error)
    return found


def _why(name: str, error: BaseException) -> NotRead:
    if isinstance(error, NotRead):
        return error
    if isinstance(error, SitemapEtlError):
        return NotRead(str(error))
    log.warning("%s can't be read", name, exc_info=error)
    return NotRead(f"{name} can't be read ({type(error).__name__}); the log of the API server says more")


def _past_runs(address: str) -> PastRuns:
    data = _get(address, layout.PAST_RUNS)
    if data is None:
        raise NotThere(
            f"{address}/{layout.PAST_RUNS} does not exist. Either this machine does not have that folder, or no run "
            "has ended there since sitemap_etl was updated."
        )
    return parse_document(data, PastRuns, f"{address}/{layout.PAST_RUNS}")


def _get(address: str, key: str) -> bytes | None:
    root, slash, below = address.removeprefix(_S3).partition("/") if address.startswith(_S3) else (address, "", "")
    storage = _storage(f"{_S3}{root}").sub(below) if slash else _storage(root)
    stored = storage.get(key)
    return None if stored is None else stored.data


_S3: Final = "s3://"


@cache
def _storage(root: str) -> Storage:
    """Return a bucket or a folder; sites share the client of theirs."""
    return open_storage(root, checksums="when_required")
