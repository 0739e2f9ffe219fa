"""Encodings: those of the web are recognized by their labels, and no other Python codec is ever used."""

from __future__ import annotations

import codecs

import pytest
from webencodings.labels import LABELS

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
def test_every_encoding_of_the_web_standard_is_decoded(label: str, text: str) -> None:
    assert decoded(text.encode(label), label) == text


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("iso-8859-1", b"\x93a\x94", "“a”"),
        ("ascii", b"\x80", "€"),
        ("latin5", b"\x80\xfe", "€ş"),
        ("tis-620", b"\x80\xa1", "€ก"),
        ("x-cp1251", b"\xff", "я"),
        ("gb2312", b"\x81\x40", "丂"),
        ("x-sjis", b"\x87\x40", "①"),
        ("shift_jis", b"\x87\x40", "①"),
        ("ks_c_5601-1987", b"\x81\x41", "갂"),
        ("big5", b"\x87\x40", "䏰"),
        ("unicode", "ä".encode("utf-16-le"), "ä"),
        ("\tUTF8 ", b"\xc3\xa4", "ä"),
    ],
)
def test_encoding_labels_are_read_as_by_browsers(label: str, data: bytes, text: str) -> None:
    assert decoded(data, label) == text


def test_every_label_of_the_standard_except_non_text_ones_has_an_encoding() -> None:
    without = {label for label in LABELS if codec_of(label) is None}
    assert without == {label for label, name in LABELS.items() if name in ("replacement", "x-user-defined")}
    assert all(codecs.lookup(codec_of(label) or "") for label in LABELS.keys() - without)


@pytest.mark.parametrize(
    "label",
    [
        "punycode",
        "idna",
        "utf-7",
        "base64",
        "zlib",
        "rot13",
        "unicode_escape",
        "hz",
        "cp037",
        "u8",
        "hz-gb-2312",
        "none",
        "",
        "a\0b",
        "ü",
    ],
)
def test_other_python_codecs_are_unknown(label: str) -> None:
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
def test_the_charset_of_a_content_type_is_parsed(content_type: str, wanted: str) -> None:
    assert charset_of(content_type) == wanted
