"""`check` against lxml and Expat for mutants of a sitemap: a file that one of them rejects has a finding."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pytest
from lxml import etree

from sitemap_etl.check import Options, check
from tests.support.examples import ALL

HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
IMAGE = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
ENTRY = "<url><loc>https://shop.example/größe</loc><image:image><image:loc>https://shop.example/a.jpg</image:loc></image:image></url>"
ROOT = f"<urlset {XMLNS} {IMAGE}>"


DOCTYPE = "<!DOCTYPE urlset [<!ELEMENT urlset ANY>]>"


def document(head: str = HEAD, root: str = ROOT, entry: str = ENTRY, doctype: str = "") -> str:
    return f"{head}\n{doctype}{root}\n{entry}\n</urlset>\n"


def lxml_rejects(data: bytes) -> bool:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        return "is not a valid URI" not in str(error)  # which Expat and other readers accept
    return False


def expat_rejects(data: bytes) -> bool:
    try:
        expat.ParserCreate(namespace_separator="\x0c").Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError):  # the last two: an encoding that Python can't map
        return True
    return False


def errors(folder: Path, *files: bytes) -> list[set[str]]:
    """Return the codes of faults that keep readers from a file, as `check` finds them."""
    names = [folder / f"{number}.xml" for number in range(len(files))]
    for name, data in zip(names, files, strict=True):
        name.write_bytes(data)
    found: dict[str, set[str]] = {str(name): set() for name in names}
    for finding in check(list(found), options=Options()).findings:
        if (finding.severity == "error" or finding.code == "encoding-name") and finding.file in found:
            found[finding.file].add(finding.code)
    return list(found.values())


NS = "http://www.w3.org/XML/1998/namespace"
TOKENS = {
    kind: tokens.split("|")
    for kind, tokens in {
        "declaration": "?|<?|?>|\"|'|“|”|=| |\t|\n|version|encoding|standalone|1.0|1.1|2.0|1|UTF-8|utf8|8utf|UTF 8|yes"
        f"|no|maybe|xml|XML|verison||{HEAD}",
        "namespace": 'xmlns|xmlns:|xmlns:p|xmlns:xml|xmlns:xmlns|p:|q:|xml:|image:|=|""|:| |"urn:a"|"a b"| p:x="1"'
        f'|"{NS}"|"http://www.w3.org/2000/xmlns/"| xsi:schemaLocation="a b"| xml:lang="de"| xmlns:p=""| xmlns:p="urn:a"'
        '| xmlns:q="urn:a" p:x="" q:x=""',
        "doctype": "<!DOCTYPE urlset>|<!DOCTYPE urlset []>|<!ELEMENT a ANY>|<!ELEMENT a>|[|]"
        "|<!ATTLIST a b CDATA #IMPLIED>|<!NOTATION n SYSTEM 's'>|<!-- ] -->|<?a ]?>|'|\"| |SYSTEM|PUBLIC 'p'"
        "|<!ELEMENT|ANY>|(#PCDATA)|%p;|<",
        "entity": "&|&amp;|&amp|&lt;|&#65;|&#x41;|&#0;|&#xD800;|&#x1F600;|&#99999999;|&nbsp;|&copy;|&;|&#;|&#x;"
        "|<![CDATA[|]]>|<|>|<!--|-->|--|\x01|\x7f|\uffff|<?pi?>|<?a:b?>|",
    }.items()
}
"""What mutants of each kind have in other places than they should."""


def mutant(random_: random.Random, kind: str) -> str:
    """Return a document in which tokens of a kind replace, or are inserted between, characters of their part."""
    parts = {"head": HEAD, "root": ROOT, "entry": ENTRY, "doctype": DOCTYPE}
    part = {
        "declaration": "head",
        "namespace": random_.choice(["root", "entry"]),
        "entity": "entry",
        "doctype": "doctype",
    }[kind]
    text = parts[part]
    if kind == "namespace" and random_.random() < 0.5:
        tags = re.split(r"(?<=[\w\"])(?=/?>)", text)
        return document(
            **{part: "".join(tag + random_.choice(["", "", " " + random_.choice(TOKENS[kind])]) for tag in tags)}
        )
    if kind == "doctype" and random_.random() < 0.5:
        declarations = [token for token in TOKENS[kind] if token.endswith(">")]
        return document(doctype=DOCTYPE.replace("]", "".join(random_.choices(declarations, k=2)) + "]"))
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(text) + 1)
        gone = random_.choice([0, 0, 1, 2, 5])
        text = text[:at] + random_.choice(TOKENS[kind]) + text[at + gone :]
    return document(**{part: text})


ENCODINGS = ["UTF-8", "utf-8", "UTF8", "utf_8", "UTF-16", "UTF-16LE", "UTF-32", "ISO-8859-1", "latin1", "windows-1252"]
ENCODINGS += [
    "cp1252",
    "us-ascii",
    "shift_jis",
    "gb2312",
    "koi8-r",
    "foo-8",
    "UTF-7",
    "ebcdic",
    "ibm037",
    "x-user-defined",
]
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis"]


def encoded(random_: random.Random) -> bytes:
    """A document whose declared encoding and bytes often disagree."""
    head = random_.choice([f'<?xml version="1.0" encoding="{random_.choice(ENCODINGS)}"?>', "", HEAD])
    return document(head=head).encode(random_.choice(CODECS), "replace")


def made(random_: random.Random, kind: str) -> bytes:
    if kind == "encoding":
        return encoded(random_)
    return mutant(random_, kind).encode("utf-8", "replace")


SYNTAX = frozenset({"xml-declaration", "xml-malformed", "namespace-declaration", "prefix-undeclared"})
"""Codes of files that strict parsers reject. Other codes are about sitemaps, and can stand beside them."""


class Choices(random.Random):
    """A random source that records what it chose."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.chosen: set[object] = set()

    def choice(self, seq: Any) -> Any:
        found = super().choice(seq)
        self.chosen.add(found)
        return found


def compare(kind: str, number: int, folder: Path) -> set[object]:
    """Compare this many mutants of a kind. Return their tokens, encodings and codecs."""
    random_ = Choices(f"{kind} {number}")
    rejected = 0
    for _ in range(0, number, 100):
        files = [made(random_, kind) for _ in range(100)]
        for data, codes in zip(files, errors(folder, *files), strict=True):
            strict = lxml_rejects(data) or expat_rejects(data)
            assert codes or not strict, f"called clean: {data!r}"
            assert strict or not codes & SYNTAX, f"{codes} in a file that both parsers accept: {data!r}"
            rejected += strict
    assert number / 20 < rejected < number * 19 / 20, "the mutants are all of one kind"
    return random_.chosen


KINDS = [*TOKENS, "encoding"]


@pytest.mark.parametrize("kind", KINDS)
def test_check_and_strict_parsers_agree_on_damaged_files(kind: str, tmp_path: Path) -> None:
    compare(kind, 100, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_check_and_strict_parsers_agree_on_damaged_files_with_every_token(kind: str, tmp_path: Path) -> None:
    used = compare(kind, 5000 if ALL else 600, tmp_path)
    assert used >= ({*ENCODINGS, *CODECS} if kind == "encoding" else set(TOKENS[kind]))


@pytest.mark.parametrize(
    "head",
    [
        "<?xml version=1.0 encoding=UTF-8?>",
        "<?xml version=“1.0” encoding=“UTF-8”?>",
        '<?xml encoding="UTF-8"?>',
        '<?xml encoding="UTF-8" version="1.0"?>',
        '<?xml verison="1.0" encoding="UTF-8"?>',
        '<?xml version="1.0" standalone="maybe"?>',
        '<?xml version="1.0" encoding="UTF 8"?>',
        '<?xml version="1.0"encoding="UTF-8"?>',
        '<?xml version="2.0" encoding="UTF-8"?>',
    ],
)
def test_a_malformed_declaration_is_reported_and_the_entries_are_still_checked(head: str, tmp_path: Path) -> None:
    broken = document(head=head, entry=ENTRY + "<url><loc>/relative</loc></url>").encode()
    assert errors(tmp_path, broken) == [{"xml-declaration", "loc-relative"}]


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        ('xsi:schemaLocation="a b"', "prefix-undeclared"),
        ('xmlns:p=""', "namespace-declaration"),
        ('xmlns:p="urn:a" xmlns:q="urn:a" p:x="1" q:x="2"', "namespace-declaration"),
        ('xmlns:xml="urn:a"', "namespace-declaration"),
    ],
)
def test_a_wrong_namespace_on_the_root_is_reported_with_its_line(attribute: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "sitemap.xml"
    path.write_text(document(root=f"<urlset {XMLNS} {IMAGE} {attribute}>"), encoding="utf-8")
    (found,) = (f for f in check([str(path)], options=Options()).findings if f.code in SYNTAX)
    assert (found.code, found.line, found.count) == (code, 2, 1)


def test_a_prefix_is_only_declared_inside_its_element(tmp_path: Path) -> None:
    inside = '<url xmlns:p="urn:a" p:x="1"><loc>https://shop.example/a</loc></url>'
    assert errors(tmp_path, document(entry=inside).encode()) == [set()]
    after = inside + '<url p:x="1"><loc>https://shop.example/b</loc></url>'
    assert errors(tmp_path, document(entry=after).encode()) == [{"prefix-undeclared"}]
