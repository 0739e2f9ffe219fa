"""Send alerts about runs, and pings to monitors of scheduled jobs. Each takes at most half a minute.

A message that can't be sent doesn't affect the run. Problems name only the host, because the rest of the address is a
secret that allows anyone to send messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, field
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

from sitemap_etl import web
from sitemap_etl.errors import SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import Notify
from sitemap_etl.visible import visible_lines
from sitemap_etl.web import WebError

VERSION: Final = 1
"""Version of the JSON for webhooks. Increases if a key is removed or changes its meaning."""
_ANSWER: Final = 64 * 1024
_SECONDS: Final = 10.0
_STEP: Final = 5.0
_PAUSES: Final = (0.0, 1.0, 4.0)
"""Seconds before each try."""
_TEXT: Final = 3_000
"""Maximum characters of a message. Slack truncates longer ones."""
_AGAIN: Final = (HTTPStatus.TOO_MANY_REQUESTS, 500, 502, 503, 504)
_SAID: Final = {
    "failed": "the run failed",
    "refused": "the run was refused",
    "partial": "the run was only partly successful",
    "interrupted": "the run was interrupted",
    "late": "the run is not done in time",
    "published": "published",
    "unchanged": "nothing changed",
}

Moment = Literal["start", "success", "fail"]
Sleep = Callable[[float], None]


class Alert(Frozen):
    """Outcome of a run for an alert. `reason`: reason of a failure. `look`: command that shows more.

    `gates`: gates that refused the run. `report`: address of the report, if there is one.
    """

    name: str
    site: str
    status: str
    run_id: str | None = None
    now: str | None = None
    reason: str | None = None
    gates: tuple[str, ...] = ()
    look: str | None = None
    report: str | None = None
    listed: int | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def title(self) -> str:
        """Return the first line of the message."""
        return f"{self.name} ({self.site}): {_SAID.get(self.status, self.status)}"

    def text(self) -> str:
        """Return the message as a person reads it."""
        lines = [self.title()]
        lines += [] if self.reason is None else [self.reason]
        changes = ", ".join(f"{count:,} {what}" for what, count in self.counts.items() if count)
        if self.listed is not None:
            lines.append(f"{self.listed:,} URLs{f' ({changes})' if changes else ''}")
        shown = {"run": self.run_id, "look": self.look, "report": self.report}
        lines += [f"{what}: {value}" for what, value in shown.items() if value is not None]
        text = "\n".join(map(visible_lines, lines))
        return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"

    def to_json(self) -> dict[str, Any]:
        """Return the message as a program reads it."""
        return {
            "version": VERSION,
            **asdict(self),
            "gates": list(self.gates),
            "title": self.title(),
            "text": self.text(),
        }

    def to_slack(self) -> dict[str, Any]:
        """Return the message in the form of Slack's incoming webhooks, in which &, < and > are markup."""
        return {"text": self.text().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def send(notify: Notify, alert: Alert, *, sleep: Sleep = time.sleep) -> list[str]:
    """Send the alert to all targets that want this outcome. Return a problem for each that failed.

    `notify`: settings with secrets.
    """
    if alert.status not in notify.on:
        return []
    found: list[str] = []
    with web.Client(step=_STEP) as client:
        for key, forms in (("webhook", alert.to_json()), ("slack", alert.to_slack())):
            for secret in getattr(notify, key) or ():
                found += _post(client, f"notify.{key}", secret.text, {"json": forms}, sleep)
    return found


def beat(notify: Notify, moment: Moment, text: str = "", *, sleep: Sleep = time.sleep) -> list[str]:
    """Tell the monitor that a run starts, or how it ended. Return the message that could not be sent, in words.

    `notify`: with its secrets read. `text`: what the monitor keeps beside it.
    """
    if notify.healthcheck is None:
        return []
    parts = urlsplit(notify.healthcheck.text)
    path = parts.path if moment == "success" else f"{parts.path.rstrip('/')}/{moment}"
    address = urlunsplit(parts._replace(path=path))
    content = {"content": text.encode(), "headers": {"Content-Type": "text/plain; charset=utf-8"}}
    with web.Client(step=_STEP) as client:
        return list(_post(client, "notify.healthcheck", address, content, sleep))


def _post(client: web.Client, key: str, address: str, content: dict[str, Any], sleep: Sleep) -> Iterator[str]:
    host = urlsplit(address).hostname or "an invalid address"
    problem = ""
    for pause in _PAUSES:
        sleep(pause)
        try:
            answer = client.request(
                "POST",
                address,
                limit=_ANSWER,
                seconds=_SECONDS,
                redact=lambda text: text.replace(address, host),
                **content,
            )
        except WebError as error:
            problem = f"{host} {error.words}"
            if not isinstance(error, Unavailable):
                break
            continue
        except SitemapEtlError as error:
            problem = str(error).replace(address, host)
            break
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return
        problem = f"{host} answered {answer.status}"
        if answer.status not in _AGAIN:
            break
    yield f"{key}: the message was not sent: {problem}"
