"""The columns of a document agree with an XML parser, whatever the text and its notation."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from sitemap_etl.check.entities import resolved_text
from sitemap_etl.check.scan import flat, scan
from tests.support.broken_sitemaps import NS

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=40
)
TAGS = st.sampled_from(["loc", "lastmod", "x:loc", "a-very-long-element-name-that-is-longer-than-forty-characters"])


@st.composite
def contents(draw: st.DrawFn) -> str:
    """Return text in the notations of writers: escaped, by number, in CDATA, with comments, with ">" unescaped."""
    text = draw(TEXT)
    how = draw(st.sampled_from(["escaped", "numbers", "cdata", "comment", "raw"]))
    if how == "numbers":
        return "".join(f"&#{ord(c)};" if n % 2 else f"&#x{ord(c):x};" for n, c in enumerate(text))
    if how == "cdata" and "]]>" not in text:
        return f"<![CDATA[{text}]]>"
    if how == "comment":
        return f'{escape(text)}<!-- <loc> & > " -->{escape(text)}'
    if how == "raw":
        return escape(text).replace("&gt;", ">").replace("]]>", "]]&gt;")
    return escape(text, {"'": "&apos;", '"': "&quot;"})


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    tag = draw(TAGS)
    attributes = "".join(
        draw(st.sampled_from([" ", "\n", "  "])) + f"{name}={quoteattr(draw(TEXT)).replace('&gt;', '>')}"
        for name in draw(st.sets(st.sampled_from(["href", "hreflang", "x:y"]), max_size=2))
    )
    if draw(st.booleans()) or depth == 0:
        return draw(st.sampled_from([f"<{tag}{attributes}/>", f"<{tag}{attributes}>{draw(contents())}</{tag} >"]))
    inner = draw(st.lists(elements(depth - 1), max_size=4))
    return f"<{tag}{attributes}>" + draw(st.sampled_from(["", "\n  "])).join(inner) + f"</{tag}>"


@pytest.mark.thorough
@given(st.lists(elements(), max_size=5), st.sampled_from(["", "<?pi <x> ?>\n", "<!-- <a> -->"]))
def test_the_scanner_finds_the_same_elements_texts_and_lines_as_a_parser(inner: list[str], before: str) -> None:
    data = f'{before}<urlset xmlns="{NS}" xmlns:x="urn:x">\n{chr(10).join(inner)}</urlset>'.encode()
    tree = etree.fromstring(data, etree.XMLParser(remove_comments=True, remove_pis=True))
    expected = list(tree.iter())
    found = scan(flat(data))
    names = [found.names[n] for n in found.name]
    assert [f"{{{n.uri}}}{n.local}" for n in names] == [e.tag for e in expected]
    assert found.depth.tolist() == [len(list(e.iterancestors())) + 1 for e in expected]
    assert [expected[p] for p in found.parent[1:]] == [e.getparent() for e in expected[1:]]
    leaves = np.flatnonzero(found.leaf)
    assert [len(e) == 0 for e in expected] == found.leaf.tolist()
    texts = found.text(np.arange(len(expected)))
    assert [texts[int(n)].as_py() for n in leaves] == [(expected[n].text or "") for n in leaves]
    assert all(data[at : at + 1] == b"<" for at in found.start)
    assert found.strays == []


@given(contents())
def test_entities_are_resolved_alike_in_one_text_and_in_a_column(text: str) -> None:
    expected = "".join(etree.fromstring(f"<a>{text}</a>").itertext())
    if "<![CDATA[" not in text and "<!--" not in text:
        assert resolved_text(text) == expected.strip()


def test_text_between_elements_is_reported_as_stray() -> None:
    found = scan(flat(b"<a>one<b>two</b>\n<!-- no -->three<c/></a>"))
    assert [text for _, text in found.strays] == ["one", "three"]


@pytest.mark.parametrize(
    "data",
    [
        b'<a xmlns="urn:a"><b xmlns="urn:b"><c/></b><d/></a>',
        b'<a xmlns="urn:a"><x:b xmlns:x="urn:b"/><x:b xmlns:x="urn:c"/></a>',
        b'<y:a xmlns:y="urn:a"><b xmlns="urn:b"/></y:a>',
        b'<a xmlns="urn:a" xmlns:ns0="urn:c"><image:b xmlns:image="urn:b"/><image:c xmlns:image="urn:d"/><ns0:e/></a>',
    ],
)
def test_namespaces_declared_on_inner_elements_are_moved_to_the_root(data: bytes) -> None:
    fixed = flat(data)
    expected = [e.tag if "{" in e.tag else f"{{}}{e.tag}" for e in etree.fromstring(data).iter()]
    found = scan(fixed)
    assert [f"{{{found.names[n].uri}}}{found.names[n].local}" for n in found.name] == expected


def test_a_document_with_unambiguous_prefixes_is_not_rewritten() -> None:
    data = b'<a xmlns="urn:a"><x:b xmlns:x="urn:b"/><x:b xmlns:x="urn:b"/><c>xmlns="urn:c"</c></a>'
    assert flat(data).data is data
