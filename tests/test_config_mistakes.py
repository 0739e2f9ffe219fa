"""All errors of a site file are reported at once, each with file, line, key path, expectation, and nearest key."""

from __future__ import annotations

import copy
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.config import Site, from_json, load
from sitemap_etl.errors import ConfigError
from tests.site_files import FULL, MINIMAL, loaded, problems, written
from tests.support.examples import examples


def test_all_errors_are_reported_at_once_in_the_order_of_the_file(tmp_path):
    text = """\
name: "bad name"
site: https://shop.example/shop/
schedule: 0 25 * * *
wrok: x
keep: 0
publish:
  at: ftp://x
  names: {file: "sitemap-{section}.xml.gz"}
  conditional_writes: no
urls: {strip: [traking], same_as: http://x y/, respect_robots: yes}
recent: 3
sections:
  Products:
    from: {}
  a:
    from: {database: "postgres://u:secretpw@h/db", sql: nope.sql, query: x, csv: y}
    lastmod: {fingerprnt: [a]}
    priority: 1.5
    columns: {loc: 5}
  b:
    from: {csv: a.csv, split: {column: id}}
    lastmod: {column: u, timezone: Europe/Berln}
    priority: "0.5"
    transform: hooks
    shards: {rows: 60000, fill: 0, byte: 3}
    gates: {max_drop: 2}
    formats: [pdf]
    view: no
    news: {publication: The Times, language: english please}
    on_error: keeep
    on_error: keep
  c:
    from: {databse: x, sql: y}
  d:
  e:
    from: {database: ok, sql: nope.sql, params: {now: 1}, split: 5}
    where: {loc}
    alternates: {grp: a}
ping:
  indexnow: {key: 12345678}
  bing: {kye: abcdef}
  http_ping: {url: "https://www.google.com/ping?sitemap={sitemap}"}
  websub: {hub: not-a-url}
gates: {max_rejected: lots}
"""
    nope = tmp_path / "sites" / "nope.sql"
    assert problems(tmp_path, text) == [
        "shop.yaml:" + line
        for line in f"""\
1: name: expected a name of letters, digits, . _ and - that begins with a letter or digit, got "bad name"
2: site: expected an origin without a path (scheme, host and port), such as https://shop.example, got \
"https://shop.example/shop/"; did you mean https://shop.example?
3: schedule: expected an hour of 0 to 23 (or *, lists, ranges, steps), got "25"
4: wrok: unknown key; did you mean work?
5: keep: expected 1 or more, got 0
6: publish.to: is missing; write to: s3://shop-public/sitemaps
7: publish.at: expected an address that begins with https:// or http://, got "ftp://x"
8: publish.names.file: expected a name that contains {{section}} and {{number}} once each, such as \
sitemap-{{section}}-{{number:05}}.xml.gz, got "sitemap-{{section}}.xml.gz"
9: publish.conditional_writes: expected true or false, got "no"; write false (in YAML 1.2, no is text)
10: urls.same_as: expected a valid address with a host, such as https://shop.example, got "http://x y/"
10: urls.strip[1]: expected tracking or sessions, got "traking"; did you mean tracking?
10: urls.respect_robots: expected true or false, got "yes"; write true (in YAML 1.2, yes is text)
11: recent: expected a duration such as 3d (s for seconds, m for minutes, h for hours, d for days, w for weeks), got 3
13: sections.Products: expected a section name of a-z, 0-9 and _ that begins with a letter, got "Products"
14: sections.Products.from: expected one of {{database: CONNECTION, sql: FILE}}, {{csv: FILE}}, {{parquet: FILE}}, \
{{jsonl: FILE}}, {{delta: TABLE}} and {{iceberg: TABLE}}, got an empty mapping
16: sections.a.from.database: expected a connection ID such as catalog; its address is set in \
AIRFLOW_CONN_<ID> or in Airflow, never here
16: sections.a.from.csv: database and csv exclude each other; use one of them
17: sections.a.lastmod: expected a column, {{column: …, timezone: …}}, {{newest_of: […]}}, {{fingerprint: […]}} or \
none, got a mapping of fingerprnt; did you mean fingerprint?
18: sections.a.priority: expected 1 or less, got 1.5
19: sections.a.columns.loc: expected text, got 5; if it is text, put it in quotes
21: sections.b.from.split: belongs to database, not to csv
22: sections.b.lastmod.timezone: expected an IANA time zone such as Europe/Berlin or UTC, got \
"Europe/Berln"; did you mean Europe/Berlin?
23: sections.b.priority: expected a number without quotes; text in quotes is the name of a column \
({{column: …}} accepts any name), got "0.5"
24: sections.b.transform: expected package.module:function, such as shop.hooks:only_live, got "hooks"
25: sections.b.shards.rows: expected 50000 or less, got 60000
25: sections.b.shards.fill: expected more than 0, got 0
25: sections.b.shards.byte: unknown key; did you mean bytes?
26: sections.b.gates.max_drop: expected 1 or less, got 2; write 0.02 for 2 %
27: sections.b.formats[1]: expected xml or text, got "pdf"
28: sections.b.view: expected true or false, got "no"; write false (in YAML 1.2, no is text)
29: sections.b.news.language: expected a language such as en (ISO 639), zh-cn or zh-tw, got "english please"
30: sections.b.on_error: expected fail or keep, got "keeep"; did you mean keep?
31: duplicate key `sections.b.on_error` (first on line 30)
33: sections.c.from: expected one of {{database: CONNECTION, sql: FILE}}, {{csv: FILE}}, {{parquet: FILE}}, \
{{jsonl: FILE}}, {{delta: TABLE}} and {{iceberg: TABLE}}, got a mapping of databse, sql; did you mean database?
34: sections.d: expected a mapping, got nothing
36: sections.e.from.params: now is set by the run itself; rename the parameter
36: sections.e.from.split: expected a mapping, got 5
36: sections.e.from.sql: file {nope} does not exist
37: sections.e.where: expected text, got {{…}}; if it is text, put it in quotes
38: sections.e.alternates.hreflang: is missing; write hreflang: language
38: sections.e.alternates.grp: unknown key; did you mean group?
40: ping.indexnow.key: expected text; if it is text, put it in quotes
41: ping.bing.kye: unknown key; did you mean key?
42: ping.http_ping.url: Google no longer accepts pings: the address was deprecated on 2023-06-26 and \
returns 404. Use ping.search_console and the Sitemap line of robots.txt
43: ping.websub.hub: expected an absolute address (https://…), got "not-a-url"
44: gates.max_rejected: expected a number, got "lots"
""".splitlines()
    ]


WRONG_PLACES = [
    # what stands below `sections:`, what is said of it
    ("  pages:\n  from: {csv: a.csv}\n", "5: sections.from: indent `from:` under `pages:`"),
    (
        "  pages:\n  from: {csv: a.csv}\n  where: x\n  other:\n    from: {csv: b.csv}\n",
        "5: sections.from: indent `from:` and `where:` under `pages:`",
    ),
    ("  pages:\n  from: {csv: a.csv}\n    where: x\n", "5: indent `from:` under `pages:`"),
    (
        "  pages:\n    from: {csv: a.csv}\n   where: x\n",
        (
            "6: `where:` is indented by 3 spaces, but `from:` on line 5 by 4; "
            "the keys of a mapping must start in the same column"
        ),
    ),
    (
        "  - from: {csv: a.csv}\n",
        "3: sections: expected a mapping of names to sections, such as `pages: {from: …}`, got a list",
    ),
    (
        "  pages:\n    from: {csv: a.csv\n    columns: {loc: url}\n",
        "5: sections.pages.from: the { that opens here is never closed; if it is text, it must be in quotes",
    ),
]


@pytest.mark.parametrize(("sections", "said"), WRONG_PLACES, ids=[said for _, said in WRONG_PLACES])
def test_a_misplaced_key_is_one_error_that_says_where_it_belongs(tmp_path, sections, said):
    head = "site: https://shop.example\npublish: ./public\nsections:\n"
    assert problems(tmp_path, head + sections) == [f"shop.yaml:{said}"]


def test_a_section_can_have_the_name_of_a_key(tmp_path):
    text = MINIMAL + "  news: {from: {csv: a.csv}}\n  from: {from: {csv: b.csv}}\n"
    assert list(loaded(tmp_path, text).sections) == ["pages", "news", "from"]
    assert problems(tmp_path, text + "  feed:\n  other: {from: {csv: c.csv}}\n") == [
        "shop.yaml:8: sections.feed: expected a mapping, got nothing"
    ]


ADDRESS = "site: expected an address that begins with https:// or http://"
ORIGIN = "site: expected an origin without a path (scheme, host and port), such as https://shop.example"
CURLY = '“ is not a quotation mark in YAML, so use " or no quotes'
MEANT = [
    # a line of the site file, what is said of it
    ("site: shop.example", f'{ADDRESS}, got "shop.example"; did you mean https://shop.example?'),
    (
        "site: “https://shop.example”",
        f'{ADDRESS}, got "“https://shop.example”"; did you mean https://shop.example?; {CURLY}',
    ),
    ("site: nonsense", f'{ADDRESS}, got "nonsense"'),
    (
        "site: https://shop.example/#top",
        f'{ORIGIN}, got "https://shop.example/#top"; did you mean https://shop.example?',
    ),
    ("gates: {max_drop: 10%}", 'gates.max_drop: expected a number, got "10%"; write 0.1'),
    ("gates: {max_drop: 2.5 %}", 'gates.max_drop: expected a number, got "2.5 %"; write 0.025'),
    ("gates: {max_growth: 50%}", 'gates.max_growth: expected a number, got "50%"; write 0.5'),
    ("gates: {max_rejected: 5}", "gates.max_rejected: expected 1 or less, got 5; write 0.05 for 5 %"),
    ("gates: {max_rejected: 500}", "gates.max_rejected: expected 1 or less, got 500"),
    ("keep: “3”", f'keep: expected a whole number, got "“3”"; {CURLY}'),
    (
        "urls: {respect_robots: no}",
        'urls.respect_robots: expected true or false, got "no"; write false (in YAML 1.2, no is text)',
    ),
]


@pytest.mark.parametrize(("line", "said"), MEANT, ids=[line for line, _ in MEANT])
def test_a_misspelled_key_or_value_gets_a_suggestion(tmp_path, line, said):
    text = MINIMAL.replace("site: https://shop.example\n", "") if line.startswith("site") else MINIMAL
    [problem] = problems(tmp_path, f"{text}{line}\n")
    assert problem.endswith(f": {said}")


def test_a_file_is_suggested_only_if_its_name_is_similar(tmp_path):
    path = written(tmp_path, MINIMAL)
    for name, near in (("nope.yaml", False), ("shops.yaml", True), ("shop.yml", True)):
        with pytest.raises(ConfigError) as caught:
            load(path.with_name(name), environ={})
        assert str(caught.value).endswith("did you mean " + str(path) + "?") == near


MISTAKES = [
    # the lines added, what is said: part of it
    ("site: x", "duplicate key `site`"),
    ("publish: 5", "duplicate key `publish`"),
    ("name: ../../etc", "expected a name of letters"),
    (
        "schedule: every day",
        "expected five cron fields (minute hour day month weekday), such as 0 2 * * *; this has 2",
    ),
    ("schedule: '@reboot'", "expected five cron fields or one of @hourly"),
    ("schedule: 0 2 31 2,4 *", "never matches"),
    ("schedule: 0 2 * * fryday", 'expected a day of the week of 0 to 7 (or *, lists, ranges, steps), got "fryday"'),
    ("schedule: '*/0 * * * *'", "expected a minute of 0 to 59"),
    ("schedule: {cron: 0 2 * * *, timezone: Mars/Phobos}", "expected an IANA time zone"),
    ("schedule: {cron: 0 2 * * *, tz: UTC}", "schedule.tz: unknown key; allowed here: cron, timezone"),
    (
        "schedule: {timezone: UTC}",
        "{cron: …, timezone: …} or {assets: […], or_cron: …}, got a mapping of timezone",
    ),
    ("work: gs://bucket/x", "got gs://…; Google Cloud Storage speaks S3: write s3://BUCKET and set AWS_ENDPOINT_URL"),
    ("work: az://bucket/x", "expected a folder or s3://bucket/prefix, got az://…"),
    ("work: https://b.s3.amazonaws.com/x", "got https://…; of a bucket write s3://BUCKET/PREFIX"),
    ("work: https:/b/x", "expected a folder or s3://bucket/prefix, got https:/…"),
    ("work: s3:/bucket/x", "expected a folder or s3://bucket/prefix; did you mean s3://bucket/x?"),
    ("work: s3//bucket/x", "expected a folder or s3://bucket/prefix; did you mean s3://bucket/x?"),
    ("work: s3:bucket", "did you mean s3://bucket?"),
    ("work: s3:///bucket", "did you mean s3://bucket?"),
    ("work: S3://bucket", "did you mean s3://bucket?"),
    ("work: s3a://bucket", "did you mean s3://bucket?"),
    ("work: s3:/me:secret@bucket", "expected a folder or s3://bucket/prefix"),
    ("work: C:\\sitemaps\\state", "got a path of Windows; write it with slashes, and without a drive"),
    ("work: d:/state", "got a path of Windows"),
    ("work: file:/srv/state", "did you mean /srv/state?"),
    ("work: file:///srv/state", "did you mean /srv/state?"),
    ("work: file:state", "did you mean state?"),
    ("work: s3://", "expected a bucket name"),
    ("work: ~/state", "~ is not expanded"),
    ("work: ./public/state", "is inside publish.to (/"),
    ("work: .\nname: public", "is inside publish.to (/"),
    ("recent: 0d", "expected a duration such as 3d"),
    ("recent: 3 days", "expected a duration such as 3d"),
    ("keep: 2.5", "expected a whole number, got 2.5"),
    ("keep: true", "expected a whole number, got true"),
    ("keep: '3'", 'expected a whole number, got "3"'),
    ("gates: {max_drop: -0.1}", "expected 0 or more, got -0.1"),
    ("gates: {max_growth: 1e999}", "expected a finite number"),
    ("gates: {max_drp: 0.1}", "gates.max_drp: unknown key; did you mean max_drop?"),
    ("gates: [max_drop]", "gates: expected a mapping, got a list of 1"),
    ("urls: {strip: tracking}", "urls.strip: expected a list"),
    ("urls: {exclude: [internal/]}", "urls.exclude[1]: expected a path pattern that begins with / or *"),
    ("urls: {same_as: ['https://u:pw1@x.example']}", "urls.same_as[1]: expected an address without user name"),
    ("sections: {}", "duplicate key `sections`"),
    ("respect_robots: true", "respect_robots: unknown key"),
    ("Keep: 3", "Keep: unknown key; did you mean keep?"),
    ("extends: _nope.yaml", "_nope.yaml does not exist"),
    ("extends: shop.yaml", "extends: the bases extend each other in a circle: shop.yaml → shop.yaml"),
    ("extends: [a, b]", "extends: expected the path of a base"),
    (
        "work: ${NOWHERE}/state",
        "work: the environment variable NOWHERE is not set; set it, or write ${NOWHERE:-default}",
    ),
    ("name: ${NOWHERE}", "name: the environment variable NOWHERE is not set"),
    ("work: ${a b}", "work: ${a b} is not a valid variable; write ${NAME} or ${NAME:-default}"),
    ("work: /x/${A:-${B:-c}}/d", "work: ${A:-${B:-c}} is not a valid variable; write ${NAME} or ${NAME:-default}"),
    ("work: ${A:-$${B}}", "work: ${A:-$${B}} is not a valid variable"),
    ("ping: {indexnow: {}}", "ping.indexnow: needs `key:` or `connection:`"),
    ("ping: {indexnow: {key: '${K}', connection: c}}", "ping.indexnow: has both `key:` and `connection:`"),
    ("ping: {indexnow: {key: short}}", "ping.indexnow.key: expected 8 to 128 letters, digits and dashes"),
    ("ping: {indexnow: {key: '${K}', endpoint: 'http://api.example/'}}", "expected an https:// address"),
    ("ping: {google: {}}", "ping.google: unknown key; allowed here: indexnow"),
    ("ping: {indexnw: {}}", "ping.indexnw: unknown key; did you mean indexnow?"),
    ("ping: [indexnow]", "ping: expected a mapping"),
    (
        "ping: {search_console: {property: shop.example, connection: g}}",
        "expected a property as Search Console shows it",
    ),
    ("ping: {http_ping: {url: 'https://x.example/ping'}}", "must contain {sitemap}"),
    ("ping: {http_ping: {url: 'https://bing.com/ping?sitemap={sitemap}'}}", "Bing no longer accepts pings"),
    ("ping: {websub: {}}", "ping.websub.hub: is missing; write hub: https://"),
]


@pytest.mark.parametrize(("lines", "said"), MISTAKES, ids=[lines for lines, _ in MISTAKES])
def test_an_error_at_the_top_level_is_reported(tmp_path, lines, said):
    told = problems(tmp_path, MINIMAL + lines + "\n")
    assert any(said in problem for problem in told), told
    assert all(problem.startswith("shop.yaml:") for problem in told)
    assert len(told) == 1, "one mistake is told once"


SECTION_MISTAKES = [
    (
        "from: {csv: a}\ncolumns: {olc: url}",
        "no rule of this section reads a column olc; did you mean loc?",
    ),
    ("from: pages.csv", "expected one of {database: CONNECTION, sql: FILE}, {csv: FILE}, "),
    ("from: postgres://u:hunter2@h/db", "postgres://…@h/db"),
    ("from: {csv: []}", "from.csv: expected at least one, got an empty list"),
    ("from: {csv: a.csv, delimiter: ';;'}", "expected one ASCII character"),
    ("from: {csv: a.csv, header: false}", "names of the columns of files without a header, such as [loc, lastmod]"),
    ("from: {csv: a.csv, header: true}", "names of the columns of files without a header, such as [loc, lastmod]"),
    ("from: {csv: a.csv, header: []}", "names of the columns of files without a header, such as [loc, lastmod]"),
    ("from: {csv: a.csv, header: [loc, x, loc]}", "names the column 'loc' more than once"),
    ("from: {csv: a.csv, null: {a: b}}", 'expected words in quotes, such as ["\\\\N", "NULL"]'),
    ("from: {csv: a.csv, null: []}", 'expected words in quotes, such as ["\\\\N", "NULL"]'),
    ("from: {csv: a.csv, null: [[a]]}", 'expected words in quotes, such as ["\\\\N", "NULL"]'),
    ("from: {jsonl: a, header: [loc]}", "from.header: belongs to csv, not to jsonl"),
    ("from: {jsonl: a, timeot: 5}", "from.timeot: unknown key; did you mean timeout?"),
    ("from: {csv: ftp://x/a.csv}", "expected a path or s3://…, got ftp://…"),
    ("from: {csv: a.csv, sql: a.sql, query: SELECT}", "has both `sql:` (a file) and `query:`"),
    ("from: {database: c}", "needs `sql:` or `query:`"),
    ("from: {database: c, sql: 5}", "from.sql: expected text, got 5"),
    ("from: {database: c, sql: .}", "can't be read"),
    ("from: {database: 5, query: q}", "from.database: expected text, got 5"),
    ("from: {database: c, query: q, params: {'a b': 1}}", "can't be bound as :a b"),
    ("from: {database: c, query: q, params: {a: [1]}}", "from.params.a: "),
    ("from: {database: c, query: q, split: {parts: 3}}", "from.split.column: is missing; write column: id"),
    ("from: {database: c, query: q, split: {column: id, parts: 300}}", "expected 256 or less, got 300"),
    ("from: {parquet: a, delimiter: ;}", "from.delimiter: belongs to csv, not to parquet"),
    ("from: {csv: a.csv}\nlastmod: {column: a, newest_of: [b]}", "newest_of and column exclude each other"),
    ("from: {csv: a.csv}\nlastmod: {column: a, unit: sec}", "expected s, ms, us or ns"),
    ("from: {csv: a.csv}\nlastmod: {newest_of: []}", "expected at least one"),
    (
        "from: {csv: a.csv}\nlastmod: {column: a, first_seen: true}",
        "first_seen: belongs to fingerprint, not to column",
    ),
    ("from: {csv: a.csv}\nlastmod: 5", "lastmod: expected a column"),
    ("from: {csv: a.csv}\npriority: {depth: false}", "priority.depth: expected true, got false"),
    ("from: {csv: a.csv}\npriority: true", "priority: expected a number from 0 to 1, a column"),
    ("from: {csv: a.csv}\nchangefreq: {col: a}", "changefreq.col: unknown key; did you mean column?"),
    ("from: {csv: a.csv}\nnews: {publication: P, language: en}\nshards: {rows: 5000}", "expected 1000 or less"),
    (
        "from: {csv: a.csv}\nalternates: {group: g, hreflang: l, x_default: english}",
        "expected an hreflang value",
    ),
    ("from: {csv: a.csv}\nfeed: {formats: [json]}", "expected rss or atom"),
    ("from: {csv: a.csv}\nfeed: {items: 0}", "expected 1 or more, got 0"),
    ("from: {csv: a.csv}\nshards: {bytes: 100}", "expected 1024 or more, got 100"),
    ("from: {csv: a.csv}\nshards: {fill: 1.5}", "expected 1 or less, got 1.5"),
    ("from: {csv: a.csv}\ntransform: shop.hooks", "expected package.module:function"),
    ("from: {csv: a.csv}\nwhere: ' '", "expected text, got an empty value"),
    ("from: {csv: a.csv}\nform: {csv: b.csv}", "form: unknown key; did you mean from?"),
    ("where: x", "sections.pages.from: is missing; write from: {database: catalog, sql: ../sql/pages.sql}"),
]


@pytest.mark.parametrize(("lines", "said"), SECTION_MISTAKES, ids=[lines for lines, _ in SECTION_MISTAKES])
def test_an_error_in_a_section_is_reported(tmp_path, lines, said):
    head = MINIMAL.rpartition("    from")[0]
    told = problems(tmp_path, head + "".join(f"    {line}\n" for line in lines.splitlines()))
    assert len(told) == 1, told
    assert said in told[0]
    assert "sections.pages" in told[0]
    assert "hunter2" not in told[0]


SHARED_NAMES = [
    # publish.names, what else the file has, what is said
    (
        "{file: '{section}{number}.xml'}",
        "  pages1:\n    from: {csv: a}\n",
        "pages11.xml would name both a file of pages and one of pages1",
    ),
    (
        "{file: '{section}-{number}.xml'}",
        "  sitemap:\n    from: {csv: a}\n",
        "sitemap-2.xml would name both a sitemap of sitemap and an index",
    ),
    ("{index: pages.rss.xml}", "    feed: {}\n", "pages.rss.xml would name both an index and the feed of pages"),
    (
        "{file: '{section}.rs{number}s.xml'}",
        "recent: 3d\ngates: {}\n",
        "",
    ),
    ("{index: maps/sitemap.xml, file: '{section}-{number}.xml'}", "  sitemap:\n    from: {csv: a}\n", ""),
    ("{file: '{number}{section}.xml'}", "  pages1:\n    from: {csv: a}\n", ""),
    ("{file: '{section}{number}.txt'}", "", "ends in .xml or .xml.gz"),
    ("{file: '../{section}{number}.xml'}", "", "a name of ASCII letters"),
    ("{file: '{section!r}{number}.xml'}", "", "{section} without a format"),
    ("{file: '{section}{number:>5}.xml'}", "", "{section} without a format"),
    ("{file: '{section}{number.real}.xml'}", "", "once each"),
    ("{file: '{section}{number.xml'}", "", "expected a name such as"),
    ("{index: /sitemap.xml}", "", "a name of ASCII letters"),
    ("{index: sitemap.html}", "", "ends in .xml or .xml.gz"),
]


@pytest.mark.parametrize(("names", "added", "said"), SHARED_NAMES, ids=[names for names, _, _ in SHARED_NAMES])
def test_colliding_file_names_are_reported(tmp_path, names, added, said):
    text = MINIMAL.replace("./public", f"{{to: p, names: {names}}}") + added
    if not said:
        assert loaded(tmp_path, text)
        return
    [told] = problems(tmp_path, text)
    assert said in told
    assert "publish.names" in told


def test_public_files_can_not_be_in_the_state(tmp_path):
    text = MINIMAL.replace("./public", "./shop/public") + "work: .\n"
    [problem] = problems(tmp_path, text)
    assert problem.startswith("shop.yaml:2: publish: to (/")
    assert "inside the state" in problem


@pytest.mark.parametrize("value", ["5", "[a, b]", "true"])
def test_publish_is_an_address_or_a_mapping(tmp_path, value):
    [problem] = problems(tmp_path, MINIMAL.replace("./public", value))
    assert problem.startswith("shop.yaml:2: publish: expected a folder or s3:// address, or {to: …, at: …}, got")


def test_a_section_cannot_be_named_recent_if_recent_changes_are_published(tmp_path):
    text = MINIMAL.replace("  pages:", "  recent:")
    assert loaded(tmp_path, text).sections["recent"]
    [problem] = problems(tmp_path, text + "recent: 3d\n")
    assert problem.startswith("shop.yaml:4: sections.recent: recent: uses this name for its own files")


def test_an_error_in_a_base_names_the_base(tmp_path):
    base = written(tmp_path, "keep: 0\n\nurls: {stripp: []}\n", "_base.yaml")
    told = problems(tmp_path, "extends: _base.yaml\n" + MINIMAL + "work: ftp://x\n")
    assert told == [
        "shop.yaml:7: work: expected a folder or s3://bucket/prefix, got ftp://…",
        f"{base.name}:1: keep: expected 1 or more, got 0",
        f"{base.name}:3: urls.stripp: unknown key; did you mean strip?",
    ]


def test_bases_that_include_each_other_are_reported(tmp_path):
    written(tmp_path, "extends: _b.yaml\n", "_a.yaml")
    written(tmp_path, "extends: _a.yaml\n", "_b.yaml")
    assert problems(tmp_path, "extends: _a.yaml\n" + MINIMAL) == [
        "_b.yaml:1: extends: the bases extend each other in a circle: shop.yaml → _a.yaml → _b.yaml → _a.yaml"
    ]


def test_a_base_given_as_a_site_is_reported(tmp_path):
    path = written(tmp_path, MINIMAL, "_base.yaml")
    with pytest.raises(ConfigError, match="files that begin with _ are bases"):
        load(path, environ={})


def test_values_of_variables_are_not_shown(tmp_path):
    text = MINIMAL + "keep: ${WORD}\nrecent: ${WORD}\nschedule: ${WORD}\n"
    told = problems(tmp_path, text, {"WORD": "hunter2"})
    assert len(told) == 3
    assert "hunter2" not in "\n".join(told)
    assert told[0].endswith("keep: expected a whole number, got the value of ${WORD}")


FULL_DATA = yaml.safe_load(FULL)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths_of(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from paths_of(below, (*path, key))


@pytest.mark.thorough
@settings(max_examples=examples(100))
@given(st.sampled_from(list(paths_of(FULL_DATA))[1:]), VALUES)
def test_any_value_of_any_key_either_loads_or_is_reported(tmp_path, path, value):
    """There is no other error, and a loaded site is read back from its JSON."""
    data = copy.deepcopy(FULL_DATA)
    below = data
    for part in path[:-1]:
        below = below[part]
    below[path[-1]] = value
    file = written(tmp_path, json.dumps(data))
    try:
        site = load(file, environ={})
    except ConfigError as error:
        told, site = error.problems, None
    if site is None:
        assert all(problem.startswith(str(file)) for problem in told)
    else:
        assert isinstance(site, Site)
        assert from_json(json.loads(json.dumps(site.to_json()))) == site
