"""The page of all sites: its content and its appearance."""

from __future__ import annotations

import html
import re

import pytest

from sitemap_etl.report import SiteLine, render_note, render_sites
from sitemap_etl.state.records import PastRun
from tests.support.browser import PHONE, look, needs_browser


def run(day: int, listed: int = 1_000, status: str = "published", **more: object) -> PastRun:
    now = f"2026-11-{day:02}T02:00:00Z"
    return PastRun(f"202611{day:02}T020000Z-0000", now, status, listed=listed, **more)  # type: ignore[arg-type]


def line(name: str, *runs: PastRun, **more: str) -> SiteLine:
    last = runs[-1] if runs else None
    status, when = ("never run", "") if last is None else (last.status, last.now)
    return SiteLine(name, f"https://{name}.example", **({"status": status, "when": when} | more), runs=runs)


def rows(page: str) -> list[str]:
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    found = [re.sub(r"(?s)<title>.*?</title>|<[^>]+>", " ", row) for row in body.split("</tr>")[:-1]]
    return [" ".join(html.unescape(row).split()) for row in found]


def test_sites_that_need_attention_come_first() -> None:
    page = render_sites(
        [
            line("calm", run(1)),
            line("half", run(1, status="partial")),
            line("late", run(1), run(2, 0, "failed"), error="the database did not answer"),
            line("new"),
        ]
    )
    assert [row.split()[0] for row in rows(page)] == ["late", "half", "calm", "new"]
    assert "<h1>2 sites of 4 need a look</h1>" in page
    assert '<header class="bad">' in page


def test_a_line_has_public_urls_the_last_change_and_the_next_run() -> None:
    good = run(2, 1_200, added=250, changed=3, removed=50)
    (row,) = rows(render_sites([line("shop", run(1), good, next_run="2026-11-03T02:00:00Z")]))
    assert row == ("shop https://shop.example published 2026-11-02 02:00 UTC 1,200 +250 ~3 −50 2026-11-03 02:00 UTC")


def test_a_refused_run_shows_the_published_urls_and_no_change() -> None:
    refused = run(2, 10, "refused", removed=990)
    (row,) = rows(render_sites([line("shop", run(1), refused, error="Refused: shop would drop 990 of 1,000 URLs")]))
    assert row == "shop https://shop.example refused shop would drop 990 of 1,000 URLs 2026-11-02 02:00 UTC 1,000"


def test_an_unreadable_state_folder_is_reported_once_with_its_sites() -> None:
    unread = [SiteLine(name, "", "success", note="s3://x answered 403") for name in ("a", "b")]
    page = render_sites(unread)
    assert rows(page) == ["a success not read", "b success not read"]
    assert page.count("s3://x answered 403") == 1
    assert "<strong>a, b</strong>" in page


def test_text_of_sources_and_people_is_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">'
    for page in (render_sites([line("shop", run(1), error=evil, note=evil)]), render_note(evil, evil, evil)):
        assert "<img" not in page


@pytest.mark.thorough
@needs_browser
def test_the_page_of_all_sites_fits_a_phone_and_has_a_dark_mode() -> None:
    page = render_sites([line(f"site-{n}", *(run(day, 900 + n * day) for day in range(1, 31))) for n in range(5)])
    light, dark = look(page, width=PHONE), look(page, width=1200, dark=True)
    assert light.width <= light.window
    assert (light.wide, dark.wide) == (0, 0)
    assert light.paper != dark.paper
    assert light.loaded == dark.loaded == []
