"""Google Search Console: submit changed indexes, remove old ones, and read Google's findings.

https://developers.google.com/webmaster-tools/v1/sitemaps
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit

from sitemap_etl import settings
from sitemap_etl.connections import Connection
from sitemap_etl.engines.credentials import Redactor
from sitemap_etl.engines.engine import HttpEngine, answer, one_by_one
from sitemap_etl.engines.exchange import Exchange, Reply
from sitemap_etl.engines.ledger import Book, Pending
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.limits import SEARCH_CONSOLE_PACE
from sitemap_etl.settings.engines import is_secure

SCOPE: Final = "https://www.googleapis.com/auth/webmasters"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_SECONDS: Final = 3_600
DOMAIN: Final = "sc-domain:"
BUSY: Final = ("rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded")
"""Reasons of a 403 that mean "later"."""
COUNTS: Final = ("errors", "warnings")
READ_BACK: Final = ("isPending", *COUNTS, "lastDownloaded", "lastSubmitted")


class SearchConsole(HttpEngine[settings.SearchConsole]):
    """`ping.search_console`. `key` is the key file of a service account: its path, or its JSON.

    A `connection` of Airflow's Google type gives it in its extra, as `key_path` or `keyfile_dict`.
    """

    name: ClassVar[str] = "search_console"
    pace: ClassVar[float] = SEARCH_CONSOLE_PACE
    extra: ClassVar[str] = "google"
    reads_back: ClassVar[bool] = True

    @classmethod
    def credentials(cls, connection: Connection) -> Mapping[str, str]:
        extra = connection.extra
        for field in ("keyfile_dict", "key_path"):
            value = extra.get(field) or extra.get(f"extra__google_cloud_platform__{field}")
            if value:
                return {"key": value if isinstance(value, str) else json.dumps(value)}
        return {}

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        pending = Pending(book)
        pending.enter(
            submission.run_id,
            {"submit": submission.addresses(), "delete": list(submission.retired)},
            again=submission.all,
        )
        published = [index.address for index in submission.indexes]
        pending.retain("submit", published)
        pending.retain("delete", set(pending.of("delete")) - set(published))
        if not published and not pending.of("delete"):
            return Answer(self.name, "nothing", 0, "there is no index to submit")
        authorization = {"Authorization": f"Bearer {self._token(exchange)}"}

        def submit(address: str) -> None:
            self._check(address)
            self._call(exchange, "PUT", address, authorization)
            pending.settle("submit", address)

        def delete(address: str) -> None:
            self._call(exchange, "DELETE", address, authorization)
            pending.settle("delete", address)

        notified, refusals, fault = one_by_one(pending.of("submit"), submit)
        deleted: list[str] = []
        if fault is None:
            deleted, refused, fault = one_by_one(pending.of("delete"), delete)
            refusals += refused
        if fault is not None:
            raise fault
        indexes = {address: self._read_back(exchange, address, authorization) for address in published}
        nothing = "no index changed" + (f"; {len(deleted)} old indexes removed" if deleted else "")
        result = answer(
            self.name,
            notified,
            refusals,
            what="index",
            nothing=nothing,
            details={"indexes": indexes, "deleted": deleted},
        )
        return Answer(
            result.engine, result.status, result.sent, "; ".join([result.message, *_found(indexes)]), result.details
        )

    def _token(self, exchange: Exchange) -> str:
        """Return an access token for the service account: one signed claim, one request.

        google-auth signs; the request goes through `Exchange`, so retries and redaction are as for all others.
        """
        from google.auth import crypt, jwt  # slow to import, and only this engine needs it

        account = self._account()
        exchange.redact.learn(account["private_key"])
        try:
            signer = crypt.RSASigner.from_service_account_info(account)  # type: ignore[no-untyped-call] # no types there
        except (ValueError, TypeError):
            signer = None  # the parser's words may quote the key
        if signer is None:
            raise ConfigError("ping.search_console.key: its private_key is not a PEM key; download the key file again")
        now = int(exchange.clock().timestamp())
        claim = {"iss": account["client_email"], "scope": SCOPE, "aud": account["token_uri"], "iat": now}
        claim["exp"] = now + TOKEN_SECONDS
        key_id = account.get("private_key_id")
        assertion = jwt.encode(signer, claim, key_id=key_id).decode()  # type: ignore[no-untyped-call] # no types there
        exchange.redact.learn(assertion)
        form = {"grant_type": GRANT, "assertion": assertion}
        reply = exchange.request("POST", account["token_uri"], "asking for an access token", data=form)
        if not reply.ok:
            said = _said(reply, exchange.redact)
            raise Refused(
                f"Google issued no access token for {account['client_email']} ({said}). "
                "Check that the key has not been revoked and that the clock of this machine is correct."
            )
        parsed = reply.json()
        token = parsed.get("access_token") if isinstance(parsed, dict) else None
        if not isinstance(token, str) or not token:
            raise Unavailable("the token endpoint answered 200, but the body is not a token in JSON.")
        exchange.redact.learn(token)
        return token

    def _account(self) -> dict[str, Any]:
        """Return the parsed key file. Raise `ConfigError`, which shows none of its content."""
        text = self.settings.key.text if self.settings.key else ""
        problem, account = (
            "is not the key file of a service account (JSON with client_email, private_key and token_uri)",
            None,
        )
        try:
            account = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text("utf-8"))
            for field in ("client_email", "private_key", "token_uri"):
                if not isinstance(account[field], str):
                    account = None
                    break
            else:
                account = account if is_secure(account["token_uri"]) else None
        except OSError as error:
            # The error's text shows the value, which can be a key that was meant to be JSON.
            problem, account = f"names a file that can't be read ({type(error).__name__})", None
        except (ValueError, KeyError, TypeError, RecursionError):
            account = None
        if account is None:
            raise ConfigError(f"ping.search_console.key: {problem}")
        return dict(account)

    def _check(self, address: str) -> None:
        """Raise `Refused` for an index that the property does not cover."""
        if self.settings.property.startswith(DOMAIN):
            host, domain = (urlsplit(address).hostname or ""), self.settings.property.removeprefix(DOMAIN)
            covered = host == domain or host.endswith(f".{domain}")
        else:
            covered = address.startswith(self.settings.property)
        if not covered:
            raise Refused(
                f"{address} is not under the property {self.settings.property}. "
                "Use a property that covers it and is verified in Search Console, or change publish.at."
            )

    def _call(self, exchange: Exchange, method: str, address: str, headers: dict[str, str]) -> Reply:
        """Send one request about one index. Both path segments are fully percent-encoded."""
        site, index = quote(self.settings.property, safe=""), quote(address, safe="")
        url = f"{self.settings.endpoint.rstrip('/')}/sites/{site}/sitemaps/{index}"
        what = {"PUT": "submitting", "DELETE": "deleting", "GET": "reading the status of"}[method]
        reply = exchange.request(method, url, f"{what} {address}", headers=headers, busy=_busy)
        gone = reply.status == 404 and method != "PUT"
        if not (reply.ok or gone):
            raise Refused(f"{what} {address} was refused ({_said(reply, exchange.redact)}). {self._advice(reply)}")
        return reply

    def _advice(self, reply: Reply) -> str:
        if reply.status == 403 and "accessNotConfigured" in _reasons(reply):
            return "Enable the Google Search Console API in the project of the service account."
        if reply.status in (401, 403, 404):
            return (
                f"Add {self._account()['client_email']} as an owner or full user of {self.settings.property}: "
                "Search Console, Settings, Users and permissions."
            )
        return "Check the property and the address of the index."

    def _read_back(self, exchange: Exchange, address: str, headers: dict[str, str]) -> dict[str, Any]:
        """Return Google's report on an index, or the reason under `problem` if it is not usable."""
        try:
            reply = self._call(exchange, "GET", address, headers)
        except (Refused, Unavailable) as error:
            return {"problem": str(error)}
        if reply.status == 404:
            return {"problem": "Google does not know it yet"}
        data = reply.json()
        if not isinstance(data, dict):
            return {"problem": "the response is not a sitemap resource in JSON"}
        return {field: _number(data[field]) if field in COUNTS else data[field] for field in READ_BACK if field in data}


def _number(value: Any) -> int | None:
    """Return a number that arrives as a JSON string, or None."""
    try:
        return int(value)
    except (ValueError, TypeError):
        return None


def _error(reply: Reply) -> dict[str, Any]:
    data = reply.json()
    error = data.get("error") if isinstance(data, dict) else None
    return error if isinstance(error, dict) else {}


def _reasons(reply: Reply) -> set[str]:
    items = _error(reply).get("errors")
    return {str(item.get("reason")) for item in items if isinstance(item, dict)} if isinstance(items, list) else set()


def _busy(reply: Reply) -> bool:
    return reply.status == 403 and bool(_reasons(reply).intersection(BUSY))


def _said(reply: Reply, redact: Redactor) -> str:
    """Return the status and the message inside Google's JSON."""
    message = _error(reply).get("message")
    return f"{reply.status}: {redact(message)[:300]}" if isinstance(message, str) else reply.said()


def _found(indexes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return Google's errors and warnings as lines for the report."""
    return [
        f"Google found {found.get('errors') or 0:,} errors and {found.get('warnings') or 0:,} warnings in {address}"
        for address, found in indexes.items()
        if found.get("errors") or found.get("warnings")
    ]
