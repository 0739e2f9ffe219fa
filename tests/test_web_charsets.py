"""Encodings: those of the web are known by their labels, and no other codec of Python's is ever run."""

from __future__ import annotations

import pytest

from sitemap_etl.web import charset_of, codec_of, decoded


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("utf-8", "ä€"),
        ("UTF8", "ä€"),
        ("latin1", "ä"),
        ("ISO-8859-15", "ä€"),
        ("windows-1252", "ä€"),
        ("Windows-1251", "я"),
        ("koi8-r", "я"),
        ("Shift_JIS", "日本"),
        ("ms932", "日本"),
        ("euc-jp", "日本"),
        ("gb18030", "中文"),
        ("GBK", "中文"),
        ("big5", "中文"),
        ("euc-kr", "한국"),
        ("us-ascii", "a"),
    ],
)
def test_an_encoding_of_the_web_is_decoded(label: str, text: str) -> None:
    assert decoded(text.encode(label), label) == text


@pytest.mark.parametrize(
    "label",
    ["punycode", "idna", "utf-7", "base64", "zlib", "rot13", "unicode_escape", "hz", "cp037", "none", "", "a\0b", "ü"],
)
def test_any_other_codec_is_unknown(label: str) -> None:
    assert codec_of(label) is None
    assert decoded(b"a-b", label) is None


@pytest.mark.parametrize(
    ("content_type", "wanted"),
    [
        ("text/xml", ""),
        ("text/xml; charset=UTF-8", "UTF-8"),
        ('text/xml;charset="iso-8859-1"', "iso-8859-1"),
        ("text/xml; version=1; Charset = 'latin1'", "latin1"),
        ("text/xml; charset=", ""),
        ("text/xml; mycharset=latin1", ""),
        ("charset=latin1", ""),
    ],
)
def test_the_charset_of_a_content_type(content_type: str, wanted: str) -> None:
    assert charset_of(content_type) == wanted
