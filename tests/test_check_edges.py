"""Nothing stops a check: a problem with one file, address, redirect, robots.txt or target is a finding of it."""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from broken_sitemaps import FINE, index, url, urlset
from test_check_web import NOW, TEXT, XML, codes, loopback

from sitemap_etl import __version__
from sitemap_etl.check import Options, Report, check
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.report import DETAILS
from sitemap_etl.check.sources import Held, Room
from sitemap_etl.errors import ConfigError, Unavailable
from sitemap_etl.web import Client
from tests.support.command import call, process
from tests.support.website import Answer, Website, website

BAD = urlset(url().replace("</url>", "<priority>7</priority></url>"))
"""A file with one error."""
ODD = [
    "http://[x/s.xml",
    "http://[::1]x/s.xml",
    "https://user:secret@shop.example/s.xml",
    f"https://shop.example/{'n' * 300}.xml",
    f"https://{'n' * 300}.example/s.xml",
    "https://shop.example:99999/s.xml",
    "https://shop.example:port/s.xml",
    "https:///s.xml",
    "http://",
    "//shop.example/s.xml",
    "/s.xml",
    "https://shop.example/%00.xml",
    "https://shop.example/%ff%fe/\ud7ff.xml",
    "https://a..b/s.xml",
    "https://xn--zz.example/s.xml",
    "file:///etc/passwd",
    "ftp://shop.example/s.xml",
    "javascript:alert(1)",
]
"""Addresses that an index or a robots.txt may hold."""


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as found:
        yield found


def quick(*targets: str, **options: object) -> Report:
    """Return a check without waits and without a resolver."""
    fetcher = Fetcher(5, client=Client(step=5, resolve=loopback), pause=lambda _seconds: None)
    try:
        return check(targets, options=Options(now=NOW, **options), fetcher=fetcher)  # type: ignore[arg-type]
    finally:
        fetcher.close()


def found(report: Report, name: str) -> set[str]:
    return {finding.code for finding in report.findings if finding.file.endswith(name)}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("where", ["folder", "index", "robots"])
def test_an_odd_url_hides_no_finding_of_the_others(where: str, odd: str, site: Website, tmp_path: Path) -> None:
    if where == "folder":
        for name, data in (("sitemap.xml", index(odd, "https://shop.example/a.xml")), ("a.xml", BAD)):
            (tmp_path / name).write_bytes(data)
        report = quick(str(tmp_path))
    else:
        good = f"{site.root}/a.xml"
        site.answers = {
            "/a.xml": (200, XML, BAD.replace(b"https://shop.example", site.root.encode())),
            "/sitemap.xml": (200, XML, index(odd, good)),
            "/robots.txt": (200, TEXT, f"User-agent: *\nSitemap: {odd}\nSitemap: {good}\n".encode()),
        }
        report = quick(f"{site.root}/{'sitemap.xml' if where == 'index' else 'robots.txt'}")
    assert "priority-invalid" in found(report, "a.xml")
    assert "defect" not in codes(report)
    assert report.exit_code() == 1
    assert "secret" not in json.dumps([f.to_json() for f in report.findings if f.code != "loc-user"])


@pytest.mark.parametrize("odd", [*ODD, "http://[", "/\n", "?"])
def test_a_redirect_to_any_target_is_a_finding_of_its_file(odd: str, site: Website) -> None:
    site.answers = {
        "/sitemap.xml": (200, XML, index(f"{site.root}/a.xml", f"{site.root}/b.xml")),
        "/a.xml": (302, {"Location": odd.encode().decode("latin-1").replace("\n", "")}, b""),
        "/b.xml": (200, XML, BAD.replace(b"https://shop.example", site.root.encode())),
    }
    report = quick(f"{site.root}/sitemap.xml", robots=False)
    assert found(report, "/b.xml") == {"priority-invalid"}
    assert "defect" not in codes(report)
    assert "secret" not in json.dumps(report.to_json())


@pytest.mark.parametrize(
    "odd", ["http://[x/", "http://user:secret@[x/", "nope.xml", "n" * 300, "site.yaml", "gopher://x/", "a\0b"]
)
def test_an_invalid_target_is_reported_along_with_the_others(odd: str, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(BAD)
    report = quick(str(tmp_path / "a.xml"), odd)
    assert found(report, "a.xml") == {"priority-invalid"}
    (finding,) = (finding for finding in report.findings if finding.code == "target-invalid")
    assert "secret" not in finding.file + finding.detail
    with pytest.raises(ConfigError) as caught:
        quick(odd)
    assert "secret" not in str(caught.value)


@dataclass(frozen=True)
class Object:
    key: str
    size: int


class Bucket:
    """Objects in memory; reading one of them raises."""

    def __init__(self, objects: dict[str, bytes | Exception]) -> None:
        self.objects = objects

    def stat(self, key: str) -> Object | None:
        return Object(key, 1000) if key in self.objects else None

    def read(self, key: str, start: int, length: int) -> bytes:
        data = self.objects[key]
        if isinstance(data, Exception):
            raise data
        return data[start : start + length]

    def list(self, prefix: str = "") -> Iterable[Object]:
        return [Object(key, 1000) for key in sorted(self.objects) if key.startswith(prefix)]


@pytest.mark.parametrize(
    ("error", "code", "ends"),
    [
        (RuntimeError("our own mistake"), "defect", 70),
        (RecursionError("our own mistake"), "defect", 70),
        (Unavailable("the store does not answer"), "unreachable", 1),
        (MemoryError(), "unreachable", 1),
    ],
)
def test_a_failure_to_read_one_file_is_a_finding_of_that_file(error: Exception, code: str, ends: int) -> None:
    bucket = Bucket({"sitemap-1.xml": BAD, "sitemap-2.xml": error, "sitemap-3.xml": FINE})
    report = check(["s3://bucket/maps"], options=Options(now=NOW, open_s3=lambda _url: bucket))
    assert found(report, "sitemap-1.xml") == {"priority-invalid"}
    assert found(report, "sitemap-2.xml") == {code}
    assert [stats.rows for stats in report.files] == [1, 0, 1]
    assert report.exit_code() == ends


def test_a_bug_in_check_is_reported_with_its_location(tmp_path: Path) -> None:
    bucket = Bucket({"sitemap.xml": RuntimeError("our own mistake")})
    (finding,) = check(["s3://bucket/maps"], options=Options(open_s3=lambda _url: bucket)).findings
    assert finding.detail.startswith("RuntimeError: our own mistake (test_check_edges.py:")


def test_named_pipes_in_a_folder_are_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sitemap-pipe.xml")
    (tmp_path / "sitemap.xml").write_bytes(FINE)
    assert [Path(stats.file).name for stats in quick(str(tmp_path)).files] == ["sitemap.xml"]


# --- who is asked, with what, and how often ---


def heard(site: Website, fetcher: Fetcher, *targets: str) -> list[dict[str, str]]:
    """The headers of each request of a check."""
    try:
        check(targets, options=Options(now=NOW), fetcher=fetcher)
    finally:
        fetcher.close()
    return site.headers


def anywhere(**options: object) -> Fetcher:
    """Every host is the server on loopback, and there are no waits."""
    client = Client(resolve=lambda _host, _port: ["127.0.0.1"], public=lambda _ip: True, agent="sitemap_etl test")
    return Fetcher(5, client=client, pause=lambda _seconds: None, **options)  # type: ignore[arg-type]


def test_a_password_in_the_address_is_used_and_never_shown(site: Website) -> None:
    shop, other = f"http://shop.test:{site.port}", f"http://other.test:{site.port}"
    site.answers = {
        "/sitemap.xml": (200, XML, index(f"{shop}/a.xml", f"{other}/b.xml", f"{shop}/moved.xml")),
        "/a.xml": (200, XML, urlset(url(f"{shop}/a"))),
        "/b.xml": (200, XML, urlset(url(f"{other}/a"))),
        "/moved.xml": (302, {"Location": f"{other}/c.xml"}, b""),
        "/c.xml": (200, XML, urlset(url(f"{shop}/c"))),
    }
    target = f"http://me:p%40ss-word@shop.test:{site.port}/sitemap.xml"
    fetcher = anywhere(headers=(("X-Preview", "key-1234"),))
    requests = heard(site, fetcher, target)
    basic = "Basic " + base64.b64encode(b"me:p@ss-word").decode()
    for request in requests:
        ours = request["host"].startswith("shop.test")
        assert request.get("authorization") == (basic if ours else None), request
        assert request.get("x-preview") == ("key-1234" if ours else None), request
    assert {request["host"].partition(":")[0] for request in requests} == {"shop.test", "other.test"}
    told = json.dumps(quick(target.replace("shop.test", "127.0.0.1"), robots=False).to_json())
    assert "ss-word" not in told


def test_a_401_after_a_redirect_to_another_host_says_that_no_password_was_sent(site: Website) -> None:
    shop, other = f"http://shop.test:{site.port}", f"http://other.test:{site.port}"
    site.answers = {"/s.xml": (302, {"Location": f"{other}/t.xml"}, b""), "/t.xml": (401, {}, b"")}
    fetcher = anywhere(headers=(("X-Preview", "key-1234"),))
    report = check([f"{shop}/s.xml"], options=Options(now=NOW, robots=False), fetcher=fetcher)
    fetcher.close()
    assert "another origin" in report.findings[0].detail


def test_the_user_agent_names_the_program_unless_an_option_replaces_it(site: Website) -> None:
    site.answers = {"/s.xml": (200, XML, site.page())}
    asked = f"{site.root}/s.xml"
    assert heard(site, Fetcher(5), asked)[0]["user-agent"] == f"sitemap_etl/{__version__} (check)"
    assert heard(site, Fetcher.of(Options(user_agent="me/1")), asked)[-1]["user-agent"] == "me/1"


@pytest.mark.parametrize(
    "headers",
    [
        (("X Y", "a"),),
        (("X-Key", "a\r\nX-Other: b"),),
        (("X-Key", "schlüssel"),),
        (("Host", "other.example"),),
        (("", "a"),),
    ],
)
def test_headers_that_can_not_be_sent_are_refused_without_their_value(headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        Options(headers=headers)
    assert headers[0][1] not in str(caught.value).partition("headers:")[2] or headers[0][1] == "a"


def waited(site: Website, paths: dict[str, Answer | Callable[[], Answer]], **options: object) -> list[float]:
    """Return the seconds that a check of these files would have waited."""
    waits: list[float] = []
    site.answers = {**paths, "/sitemap.xml": (200, XML, index(*(f"{site.root}{path}" for path in paths)))}
    fetcher = Fetcher(5, client=Client(step=5, resolve=loopback), pause=waits.append, **options)  # type: ignore[arg-type]
    check([f"{site.root}/sitemap.xml"], options=Options(now=NOW, robots=False, jobs=1), fetcher=fetcher)
    fetcher.close()
    return waits


def test_the_delay_separates_requests_to_a_host(site: Website) -> None:
    waits = waited(site, {f"/{n}.xml": (200, XML, site.page(f"/{n}")) for n in range(4)}, delay=1000.0)
    assert [round(wait, -3) for wait in waits] == [1000, 2000, 3000, 4000]  # the test does not wait, so they add up


def test_a_short_retry_after_is_waited_out_and_a_long_one_is_a_finding(site: Website) -> None:
    late: list[Answer] = [(200, XML, site.page()), (503, {"Retry-After": "70"}, b"")]
    assert max(waited(site, {"/a.xml": late.pop})) == 70
    assert waited(site, {"/a.xml": (429, {"Retry-After": "9000"}, b"")}) == []
    report = quick(f"{site.root}/sitemap.xml", robots=False)
    assert [f.detail for f in report.findings] == ["status 429, it asks to wait 9,000 seconds"]


def test_a_busy_host_gets_fewer_requests_at_a_time(site: Website) -> None:
    now, most, lock = 0, [0], threading.Lock()
    answered = [0]

    def busy() -> Answer:
        nonlocal now
        with lock:
            now += 1
            answered[0] += 1
            if answered[0] > 24:
                most.append(now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return (503, {}, b"")

    paths = [f"/{n}.xml" for n in range(40)]
    site.answers = dict.fromkeys(paths, busy)
    site.answers["/sitemap.xml"] = (200, XML, index(*(site.root + path for path in paths)))
    quick(f"{site.root}/sitemap.xml", jobs=8, robots=False)
    assert answered[0] == 120
    assert max(most) == 1


def test_a_host_that_never_answers_is_abandoned_for_all_its_files(site: Website) -> None:
    dead = "http://127.0.0.1:1"
    site.answers["/sitemap.xml"] = (200, XML, index(*(f"{dead}/{n}.xml" for n in range(200))))
    report = quick(f"{site.root}/sitemap.xml", jobs=1, robots=False)
    codes = Counter(f.code for f in report.findings)
    assert (codes["unreachable"], codes["not-asked"]) == (5, 195)


# --- bounds ---


def test_the_timeout_of_a_file_covers_connection_redirects_and_last_byte(site: Website) -> None:
    """A server that sends a byte now and then, of its headers or of the file, exceeds the time limit."""

    def drip() -> Answer:
        time.sleep(0.1)
        return (302, {"Location": "/s.xml"}, b"")

    site.answers = {"/s.xml": drip}
    fetcher = Fetcher(0.25, client=Client(step=5, resolve=loopback))
    report = check([f"{site.root}/s.xml"], options=Options(now=NOW, robots=False), fetcher=fetcher)
    fetcher.close()
    assert [(f.code, f.detail) for f in report.findings] == [("unreachable", "did not answer in time")]
    assert len(site.asked) <= 4


def hanging(site: Website, event: threading.Event) -> None:
    """A set of two files: one has an error, the other one is never sent."""

    def never() -> Answer:
        event.wait(60)
        return (200, XML, site.page())

    site.answers = {
        "/sitemap.xml": (200, XML, index(f"{site.root}/a.xml", f"{site.root}/b.xml", f"{site.root}/c.xml")),
        "/a.xml": (200, XML, BAD.replace(b"https://shop.example", site.root.encode())),
        "/b.xml": never,
        "/c.xml": never,
    }


@pytest.fixture
def hangs(site: Website) -> Iterable[threading.Event]:
    event = threading.Event()
    hanging(site, event)
    yield event
    event.set()


def test_when_max_time_ends_the_report_has_checked_files_and_names_the_rest(
    site: Website, hangs: threading.Event
) -> None:
    report = check([f"{site.root}/sitemap.xml"], options=Options(now=NOW, max_time=1.5, robots=False))
    assert not hangs.is_set()
    assert found(report, "/a.xml") == {"priority-invalid"}
    (finding,) = (f for f in report.findings if f.code == "not-finished")
    assert (finding.count, finding.detail) == (1, "the time limit is 1.5 seconds; 2 known files were not read")
    assert report.ended


def test_pages_of_a_host_that_was_not_asked_in_time_have_no_findings(site: Website, hangs: threading.Event) -> None:
    with website() as other:
        other.answers["/robots.txt"] = site.answers["/b.xml"]
        site.answers["/away.xml"] = (200, XML, other.page())
        report = check([f"{site.root}/away.xml"], options=Options(now=NOW, max_time=1.5, pages=1))
    assert not hangs.is_set()
    assert codes(report) == {"not-finished", "page-not-visited"}
    assert (report.ended, report.pages.skipped) == ("the time limit is 1.5 seconds", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_check_with_the_findings_so_far(
    number: int, site: Website, hangs: threading.Event, tmp_path: Path
) -> None:
    with process("check", f"{site.root}/sitemap.xml", "--no-robots", "--json", cwd=tmp_path) as child:
        while f"127.0.0.1:{site.port}/b.xml" not in site.asked:
            assert child.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)  # until the first file was read
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    told = json.loads(out)
    assert told["exit"] == 130
    assert {"priority-invalid", "not-finished"} <= {finding["code"] for finding in told["findings"]}


def test_a_signal_ends_the_check_within_a_large_file(tmp_path: Path) -> None:
    rows = "".join(f"<url><loc>https://shop.example/a/{n}</loc><lastmod>x{n}</lastmod></url>" for n in range(350_000))
    (tmp_path / "sitemap.xml").write_bytes(urlset(rows))
    with process("check", tmp_path, "--json", cwd=tmp_path) as child:
        time.sleep(0.7)
        child.send_signal(signal.SIGINT)
        out, _err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert json.loads(out)["exit"] == 130


def test_command_line_options_apply_to_the_requests(site: Website, tmp_path: Path) -> None:
    site.answers = {"/s.xml": (200, XML, site.page())}
    base = ("check", f"{site.root}/s.xml", "--no-robots")
    options = ("--header", "X-Key: a b", "--user-agent", "me/1", "--delay", "0.01", "--max-time", "60")
    done = call(*base, *options)
    assert done.code == 0, done.out
    (headers,) = site.headers
    assert (headers["x-key"], headers["user-agent"]) == ("a b", "me/1")
    assert call(*base, "--header", "no colon secret").code == 2
    assert "secret" not in call(*base, "--header", "no colon secret").err


def test_a_check_that_ran_out_of_time_ends_with_exit_code_3(
    site: Website, hangs: threading.Event, tmp_path: Path
) -> None:
    site.answers["/a.xml"] = (200, XML, site.page())
    with process("check", f"{site.root}/sitemap.xml", "--no-robots", "--max-time", "3", cwd=tmp_path) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 3, err
    assert "not-finished" in out


@pytest.mark.thorough
def test_a_check_that_ended_early_keeps_the_old_baseline_and_list_of_urls(
    site: Website, hangs: threading.Event, tmp_path: Path
) -> None:
    for name in ("known.json", "urls.csv"):
        (tmp_path / name).write_text("the last one")
    base = ("check", f"{site.root}/sitemap.xml", "--no-robots", "--max-time", "3", "--json")
    with process(*base, "--baseline", "known.json", "--write-baseline", "--urls", "urls.csv", cwd=tmp_path) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 1, err
    assert json.loads(out)["ended"] == "the time limit is 3 seconds"
    for name in ("known.json", "urls.csv"):
        assert f"{name}: not written, because the check ended early: the time limit is 3 seconds." in err
        assert (tmp_path / name).read_text() == "the last one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known.json", "urls.csv"]


def test_files_wait_for_memory_and_the_largest_is_read_alone() -> None:
    room, lock, held = Room(100), threading.Lock(), [0]
    most: list[tuple[int, int]] = []

    def read(size: int) -> None:
        with room.held() as mine:
            mine.take(size)
            with lock:
                held[0] += size
                most.append((size, held[0]))
            time.sleep(0.001)
            with lock:
                held[0] -= size

    threads = [threading.Thread(target=read, args=(size,)) for size in [30, 60, 90, 250, 10, 40] * 20]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert len(most) == 120
    assert all(total <= 100 or total == size for size, total in most)


def test_a_file_larger_than_expected_does_not_deadlock_the_memory_budget() -> None:
    room = Room(100)
    with room.held() as one, room.held() as other:
        one.take(50)
        other.take(50)
        one.grow(90)
        other.grow(80)
        assert isinstance(one, Held)
        assert (one.size, other.size) == (90, 80)


def test_findings_about_many_hosts_are_bounded(tmp_path: Path) -> None:
    """5,000 hosts in a file are one fault of the file."""
    pages = "".join(url(f"https://shop{n}.example/a b") for n in range(5_000))
    (tmp_path / "sitemap.xml").write_bytes(urlset(pages))
    for at in (None, "https://shop.example/sitemap.xml"):
        report = quick(str(tmp_path / "sitemap.xml"), at=at)
        assert max(sum(f.code == code for f in report.findings) for code in codes(report)) <= DETAILS + 1
        hosts = sum(f.count for f in report.findings if f.code in {"foreign-host", "mixed-hosts"})
        assert hosts == (5_000 if at else 4_999)
