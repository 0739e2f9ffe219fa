"""Airflow's UI in a real browser without a window, used as an operator uses it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import unquote

from playwright.sync_api import Browser, FrameLocator, Page, expect, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser of this machine: none is downloaded."""
SECONDS = 60
"""How long a page may take: the machine may be busy."""
RUN_SECONDS = 600
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--hide-scrollbars")


Look = Literal["light", "dark", "null"]


class Operator:
    """Somebody who is logged in to an Airflow at `address`."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address

    def log_in(self, user: str, password: str) -> None:
        """Come to the UI without a login, and leave its form with one."""
        self.page.goto(f"{self.address}/")
        self.page.get_by_label("Username").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.address}/")

    def open(self, path: str) -> None:
        """Open a page of the UI by its address."""
        self.page.goto(f"{self.address}{path}")

    def trigger(self, dag: str, params: Mapping[str, bool | str]) -> str:
        """Trigger a run by the form, with these of its parameters changed; gives the id of the run."""
        self.open(f"/dags/{dag}")
        self.page.get_by_role("button", name="Trigger Dag").click()
        form = self.page.get_by_role("dialog")
        for name, value in params.items():
            field = form.locator(f'[name="element_{name}"]')
            if isinstance(value, str):
                field.fill(value)
            elif field.is_checked() != value:
                field.locator("xpath=ancestor::label").click()
        form.get_by_role("button", name="Trigger").click()
        self.page.wait_for_url(f"{self.address}/dags/{dag}/runs/*")
        return unquote(self.page.url.split("/runs/")[1].partition("/")[0])

    def wait_for_run(self) -> None:
        """Wait until the run of the page at hand has succeeded: the first badge of a state is that of the page."""
        badge = self.page.get_by_test_id("state-badge").first
        expect(badge).to_have_text("Success", timeout=RUN_SECONDS * 1000)

    def choose_colors(self, name: str) -> None:
        """Choose `Dark Mode` or `Light Mode` in the user's menu."""
        self.page.get_by_role("button", name="User").click()
        self.page.get_by_role("menuitem", name="Appearance").hover()
        self.page.get_by_role("menuitemradio", name=name).click()

    def tab(self, name: str) -> FrameLocator:
        """Open a tab of the page at hand; gives what it shows of ours."""
        self.page.get_by_role("link", name=name, exact=True).click()
        return self.frame(name)

    def frame(self, name: str) -> FrameLocator:
        """What the page at hand shows of ours."""
        return self.page.frame_locator(f'iframe[title="{name}"]')


@contextmanager
def operator(address: str, *, look: Look = "light", **page: Any) -> Iterator[Operator]:
    """A browser of its own with one page, until the end of the block. `page`: of playwright's `new_page`.

    `look`: the colors that the system asks for in each frame. With `null`, frames follow the page around them, as they
    do for people.
    """
    with sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(_OPTIONS))
        try:
            opened = browser.new_page(color_scheme=look, **page)
            opened.set_default_timeout(SECONDS * 1000)
            yield Operator(opened, address)
        finally:
            browser.close()
