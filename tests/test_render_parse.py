"""A published sitemap has all that it was rendered from: parsed and rendered again, it has the same bytes."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from sitemap_etl.frames import SNAPSHOT
from sitemap_etl.render import urlset
from sitemap_etl.render.parse import rows_of
from tests.support import rendered
from tests.support.sites import TestSite
from tests.test_own_output import everything  # noqa: F401 - a fixture


def written(rows: pa.Table) -> bytes:
    return b"".join(urlset.document(urlset.entries(rows), urlset.namespaces(rows)))


def test_every_extension_is_parsed_back(everything: TestSite) -> None:  # noqa: F811 - the imported fixture
    found = 0
    for key, data in everything.public().objects().items():
        if key.endswith(".xml.gz") and key.startswith("sitemap-"):
            text = gzip.decompress(data)
            rows = rows_of(text)
            assert rows.schema.equals(SNAPSHOT)
            assert written(rows) == text, key
            found += 1
    assert found > 4


def test_one_row_of_each_kind_is_parsed_back() -> None:
    text = written(rendered.everything())
    assert written(rows_of(text)) == text


@pytest.mark.parametrize("data", [b"", b"<urlset>", b"\x1f\x8b\x08", b'<?xml version="1.0"?><a>&b;</a>'])
def test_content_that_is_not_a_sitemap_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not well-formed XML"):
        rows_of(data)
