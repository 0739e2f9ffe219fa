"""`check` reports what strict parsers refuse: prefixes outside of their scope, and repeated declarations."""

from __future__ import annotations

import socket
from pathlib import Path
from xml.parsers import expat

import pytest
from lxml import etree

from sitemap_etl.check import Options, check
from tests.support.command import call
from tests.support.sites import FIRST_NIGHT

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
XMLNS = "http://www.w3.org/2000/xmlns/"
XML = "http://www.w3.org/XML/1998/namespace"
LOC = "<loc>https://shop.example/{}</loc>"
LINK = '<x:link {} rel="alternate" hreflang="en" href="https://shop.example/{}"/>'


def picture(page: int, declared: str = "") -> str:
    return f"<i:image {declared}><i:loc>https://shop.example/{page}.jpg</i:loc></i:image>"


DECLARED = f'xmlns:i="{IMAGE}"'
OUTSIDE = {
    "on an image before": [LOC.format(1) + picture(1, DECLARED), LOC.format(2) + picture(2)],
    "on an image of the same page": [LOC.format(1) + picture(1, DECLARED) + picture(2)],
    "on an image after": [LOC.format(1) + picture(1), LOC.format(2) + picture(2, DECLARED)],
    "on a child": [LOC.format(1) + f"<i:image><i:loc {DECLARED}>https://shop.example/1.jpg</i:loc></i:image>"],
    "on a loc": [f"<loc {DECLARED}>https://shop.example/1</loc>" + picture(1)],
    "on a link": [LOC.format(1) + LINK.format(f'xmlns:x="{XHTML}"', 1), LOC.format(2) + LINK.format("", 2)],
    "of the protocol": [LOC.format(1), f'<s:loc xmlns:s="{SITEMAP}">https://shop.example/2</s:loc><s:lastmod/>'],
}


def codes(path: Path, text: str) -> set[str]:
    path.write_text(text)
    report = check([str(path)], options=Options(at="https://shop.example/sitemap.xml", now=FIRST_NIGHT))
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_prefix_used_outside_the_element_that_declares_it_is_undeclared(tmp_path: Path, kind: str) -> None:
    body = "".join(f"<url>{entry}</url>\n" for entry in OUTSIDE[kind])
    text = f'<urlset xmlns="{SITEMAP}">\n{body}</urlset>'
    with pytest.raises(expat.ExpatError, match="unbound prefix"):
        expat.ParserCreate("utf-8", " ").Parse(text.encode(), True)
    assert "prefix-undeclared" in codes(tmp_path / "sitemap.xml", text)


def test_a_prefix_declared_by_each_element_has_no_finding(tmp_path: Path) -> None:
    body = "".join(f"<url>{LOC.format(n)}{picture(n, DECLARED)}</url>\n" for n in range(5))
    assert codes(tmp_path / "sitemap.xml", f'<urlset xmlns="{SITEMAP}">\n{body}</urlset>') == set()


@pytest.mark.parametrize("first", [XMLNS, XML, "", SITEMAP])
@pytest.mark.parametrize("name", ["xmlns", "xmlns:xml", "xmlns:xmlns", "xmlns:i"])
@pytest.mark.parametrize("root", ["urlset", "sitemapindex", "rss"])
def test_a_repeated_namespace_declaration_is_malformed_xml(tmp_path: Path, name: str, first: str, root: str) -> None:
    entry = {"urlset": "url", "sitemapindex": "sitemap", "rss": "channel"}[root]
    text = f'<{root} {name}="{first}" {name}="{SITEMAP}"><{entry}>{LOC.format("")}</{entry}></{root}>'
    found = codes(tmp_path / "sitemap.xml", text)
    assert "xml-malformed" in found
    assert "defect" not in found
    with pytest.raises((etree.XMLSyntaxError, expat.ExpatError)):
        expat.ParserCreate("utf-8", " ").Parse(text.encode(), True)


# --- a home page that does not answer ---------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("path", ["", "/", "/sitemap.xml"])
@pytest.mark.parametrize("robots", [True, False])
def test_a_host_that_refuses_connections_is_unreachable(path: str, robots: bool) -> None:
    target = f"http://127.0.0.1:{closed_port()}{path}"
    report = check([target], options=Options(now=FIRST_NIGHT, robots=robots))
    assert "unreachable" in {finding.code for finding in report.findings}
    assert not [note for note in report.notes if "names no sitemap" in note]
    assert report.exit_code() != 0


def test_an_unreachable_home_page_ends_with_exit_code_3() -> None:
    assert call("check", f"http://127.0.0.1:{closed_port()}/").code == 3


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    report = check(["https://shop.invalid/"], options=Options(now=FIRST_NIGHT))
    assert "unreachable" in {finding.code for finding in report.findings}
    assert report.notes == []
