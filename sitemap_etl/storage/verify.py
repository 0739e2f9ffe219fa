"""Writing with proof: what was put is read back and compared, byte for byte by length and hash."""

from __future__ import annotations

from sitemap_etl.errors import Unavailable
from sitemap_etl.storage.body import Body
from sitemap_etl.storage.protocol import Data, Expect, Stat, Storage


def put_verified(
    storage: Storage,
    key: str,
    data: Data,
    *,
    content_type: str = "application/octet-stream",
    cache_control: str | None = None,
    expect: Expect = None,
    sha256: str | None = None,
) -> Stat:
    """Put, then read back: the Stat of an object that is known to hold exactly `data`.

    `sha256`: that of the data, where it is known. A checksum in the request is not proof enough: there are stores that
    accept a wrong one. Reads the whole object into memory once. Raises what `put` and `get` raise, and `Unavailable`
    where other bytes come back, naming both hashes: the object is then there, but is not what was sent.
    """
    put = storage.put(key, data, content_type=content_type, cache_control=cache_control, expect=expect, sha256=sha256)
    back = storage.get(key)
    body = Body(data)
    expected = sha256 or body.sha256()
    if back is None:
        raise Unavailable(
            f"{storage.url_of(key)} was accepted but could not be read back: "
            f"expected {body.size:,} bytes with sha256 {expected}. Try again; if the error persists, contact "
            "the operator of the store."
        )
    found = back.sha256
    if found != expected:
        why = "the store or the network changed it"
        if put.etag != back.stat.etag:
            why = "another writer replaced it, or the store changed it"
        raise Unavailable(
            f"{storage.url_of(key)} does not contain what was written: expected {body.size:,} bytes with "
            f"sha256 {expected}, "
            f"found {len(back.data):,} bytes with sha256 {found}: {why}."
        )
    return back.stat
