"""Write an object, read it back, and compare it by length and hash."""

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
    """Put an object and read it back. Return its Stat once it is proved to contain exactly `data`.

    `sha256`: the SHA-256 of the data, if it is known. A checksum in the request would not prove it, because some
    stores accept a wrong one. The whole object is in memory once. Raise the errors of `put` and `get`, and
    `Unavailable` with both hashes if other bytes come back; the damaged object is then in the store.
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
