"""The site that `make docs` builds can be read and searched from disk, without a server."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browser import PHONE, needs_browser, opened
from tests.support.documents import ROOT

HOME = ROOT / "build" / "site" / "index.html"
needs_site = pytest.mark.skipif(not HOME.exists(), reason="there is no site; `make docs` builds it")


@pytest.mark.thorough
@needs_browser
@needs_site
@pytest.mark.parametrize("width", [1200, PHONE])
def test_the_search_of_the_documentation_works_from_disk(width: int) -> None:
    with opened(HOME.as_uri(), width=width) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        if width == PHONE:
            page.locator("label[for=__search]:visible").first.click()
        page.get_by_role("textbox", name="Search").press_sequentially("fingerprint")
        first = page.locator(".md-search-result__item a").first
        expect(first).to_contain_text("Fingerprints", timeout=60_000)
        first.click()
        page.wait_for_url("**/explanation/fingerprints.html*")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Fingerprints")
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
