"""The ping stage: send pending changes to search engines, one engine at a time."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePath
from typing import Any, Literal

import pyarrow as pa

from sitemap_etl import engines
from sitemap_etl.config import Site, revealed
from sitemap_etl.errors import ConfigError, DamagedState, Refused, SitemapEtlError, Unavailable
from sitemap_etl.frames import CHANGES
from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.about import about
from sitemap_etl.stages.run import Environment, new_run_id, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.changes import (
    answer_of,
    changes_of_run,
    notification_of,
    packed,
    put_answer,
    put_changes,
    runs_with_changes,
    together,
)
from sitemap_etl.state.codec import decode, encode, seal, unseal
from sitemap_etl.state.records import Answered, LedgerData, Manifest, Notification
from sitemap_etl.state.store import State


def engines_of(site: Site) -> list[str]:
    """Return the engines that the site file names, in a fixed order."""
    return list(site.ping.engines())


def engines_to_notify(site: Site, environment: Environment, *, published: bool) -> list[str]:
    """Return the engines that a finished run has to notify.

    After a publish these are all engines. Otherwise they are the ones with pending runs, and the ones that report back.
    `published`: True if the run published a new release.
    """
    if published:
        return engines_of(site)
    state = state_of(site, environment)
    if state.current().manifest is None:
        return []
    runs = runs_with_changes(state)
    return [
        engine
        for engine in engines_of(site)
        if engines.named(engine).reads_back
        or _is_waiting(state, engine)
        or not all(_is_notified(state, run, engine) for run in runs)
    ]


def pending_runs(state: State, engine: str) -> list[str]:
    """Return the runs whose changes an engine has not accepted completely, in order.

    Raise Refused if a newer version wrote its ledger.
    """
    waits = set(engines.named(engine).pending(StoredLedger(state, engine)))
    runs = [run for run in runs_with_changes(state) if run in waits or not _is_notified(state, run, engine)]
    return [*runs, *sorted(waits - set(runs))]


def _is_waiting(state: State, engine: str) -> bool:
    """Return True if the engine's ledger has pending changes, or a newer version wrote it."""
    try:
        return bool(engines.named(engine).pending(StoredLedger(state, engine)))
    except Refused:
        return True  # the submission reports the error


def _in_silence(_text: str) -> None:
    pass


class StoredLedger(Frozen):
    """The ledger of an engine, one JSON object in the state. A damaged one is reported to `log` and replaced."""

    state: State
    engine: str
    log: Callable[[str], None] = _in_silence

    def load(self) -> dict[str, Any]:
        key = layout.ledger(self.engine)
        stored = self.state.storage.get(key)
        if stored is None:
            return {}
        where = self.state.storage.url_of(key)
        try:
            data = decode(LedgerData, unseal(stored.data, where), where)
        except DamagedState as error:
            self.log(f"warning: {self.engine}: {error}. A new ledger was begun: some URLs may be sent twice")
            return {}
        return {name: value for name, value in encode(data).items() if value is not None}

    def save(self, data: dict[str, Any]) -> None:
        self.state.storage.put(layout.ledger(self.engine), seal(data), content_type="application/json")


def settled_answer(site: Site, run_id: str, engine: str, environment: Environment) -> Answered | None:
    """Return the answer of an engine to a run if nothing is pending any more, else None."""
    state = state_of(site, environment)
    state.current()  # raises for the state of another site, before anything is written
    done = answer_of(state, run_id, engine)
    final = done is not None and done.status in ("accepted", "nothing", "skipped")
    return done if final and not _is_waiting(state, engine) else None


def ping_engine(
    site: Site, run_id: str, engine: str, environment: Environment, *, open_client: Callable[[], Any] | None = None
) -> Answered:
    """Notify one engine of a run's changes, and of earlier runs with pending changes. Return the answer.

    A run that published nothing has no changes. The answer is stored in the state. It is `unavailable` if another try
    can help. It is `failed` if the engine could not be asked because of its settings, its connection or a defect. In
    both cases the changes stay pending. Raise Refused if nothing was ever published, and errors of the state.
    """
    state = state_of(site, environment)
    done = settled_answer(site, run_id, engine, environment)
    if done is not None:
        return done
    runs = runs_with_changes(state)
    # Files of a run that was never committed are not a change of the site.
    own = notification_of(state, run_id) if run_id in runs else None
    notification = own or _of_no_changes(site, state)
    pending: tuple[str, ...] = ()
    if not notification.by_hand:
        earlier = runs[: runs.index(run_id)] if run_id in runs else runs
        pending = tuple(run for run in earlier if not _is_notified(state, run, engine))
    first = runs.index((*pending, run_id)[0]) if own is not None or pending else 0
    try:
        changes = None if own is None else changes_of_run(state, run_id)
        submission = _submission(site, state, run_id, notification, changes, pending)
        submission = replace(
            submission,
            site_file=environment.site_file,
            before=runs[first - 1] if first else None,
        )
        made = _engine(site, engine, environment)
        with (open_client or engines.open_client)() as client:
            answer = _submit(made, submission, StoredLedger(state, engine, environment.log), client, environment.clock)
    except Unavailable as error:
        answer = Answered(engine, "unavailable", 0, str(error))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one engine, it is reported, and the others are asked
        answer = Answered(engine, "failed", 0, why(error))
    for run in (run_id,) if answer.pending else (*pending, *notification.covers, run_id):
        put_answer(state, run, answer)
    return answer


def _submit(
    made: engines.HttpEngine[Any],
    submission: engines.Submission,
    ledger: StoredLedger,
    client: Any,
    clock: Callable[[], datetime],
) -> Answered:
    try:
        given = made.submit(submission, ledger, client, clock=clock)
    except Refused as error:
        return Answered(made.name, "refused", 0, str(error))
    return Answered(given.engine, given.status, given.sent, given.message, given.details)


def why(error: BaseException) -> str:
    """Return the text of an error. For a defect it has only the place in the code, because its text can contain a
    secret.
    """
    if isinstance(error, SitemapEtlError):
        return str(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__} at {PurePath(at.filename).name}:{at.lineno}: a defect of sitemap_etl, please report it"
    )


def notify(
    site: Site,
    run_id: str,
    names: Sequence[str],
    environment: Environment,
    ask: Callable[[Site, str, str, Environment], Answered] = ping_engine,
) -> dict[str, Answered]:
    """Notify engines of a run, one after the other, and return their answers. An error of one does not stop the others.

    An engine whose state can't be read or written gets the answer `unavailable` or `failed`.
    """
    answers = {}
    environment.advance("ping", 0, len(names))
    for n, name in enumerate(names):
        with about(stage="ping", engine=name):
            try:
                answer = ask(site, run_id, name, environment)
            except SitemapEtlError as error:
                status: Literal["unavailable", "failed"] = "unavailable" if isinstance(error, Unavailable) else "failed"
                answer = Answered(name, status, 0, str(error))
            line = f"{name}: {answer.status}: {answer.message}"
            environment.detail(line, status=answer.status, sent=answer.sent)
        answers[name] = answer
        environment.advance("ping", n + 1, len(names))
    return answers


def put_by_hand(
    site: Site, environment: Environment, asked: Collection[str], *, since: str | None, everything: bool
) -> str:
    """Store changes that a person wants to send, under a new run, and return its id.

    `asked`: engines to notify; the others never get these changes. `since`: send all changes after that run.
    `everything`: send all URLs of the site. Raise ConfigError if the changes no longer exist.
    """
    state = state_of(site, environment)
    manifest = state.manifest(state.current().manifest)
    if manifest is None:
        raise Refused(f"{site.name}: nothing has been published yet, so there is nothing to send")
    if not everything and since is None:
        return manifest.run_id
    runs = runs_with_changes(state)
    if since is not None and since not in runs:
        raise ConfigError(
            f"--since {since}: the changes of that run are not kept. Kept are: {', '.join(runs) or 'none'}"
        )
    later = [] if since is None else runs[runs.index(since) + 1 :]
    tables = [table for run in later if (table := changes_of_run(state, run)) is not None]
    changes = packed(_whole_site(state, manifest) if everything else [together(tables)] if tables else [])
    addresses = tuple(site.publish.at + index.file.key for index in manifest.indexes)
    feeds = tuple(site.publish.at + file.key for file in manifest.extras)
    run_id = new_run_id(environment.clock())
    covers = tuple(runs if everything else later)
    notification = Notification(addresses, addresses, (), feeds, manifest.listed, None, by_hand=True, covers=covers)
    for name in engines_of(site):
        if name not in asked:
            put_answer(state, run_id, Answered(name, "nothing", 0, "this was sent by hand to other engines"))
    put_changes(state, run_id, changes, notification)
    return run_id


def _is_notified(state: State, run_id: str, engine: str) -> bool:
    answer = answer_of(state, run_id, engine)
    return answer is not None and not answer.pending


def _of_no_changes(site: Site, state: State) -> Notification:
    """Return the submissions about the current release by a run that left it unchanged."""
    manifest = state.manifest(state.current().manifest)
    if manifest is None:
        raise Refused(f"{site.name}: nothing has been published yet, so there is nothing to send")
    addresses = tuple(site.publish.at + index.file.key for index in manifest.indexes)
    return Notification(addresses, (), (), (), manifest.listed, None)


def _submission(
    site: Site,
    state: State,
    run_id: str,
    notification: Notification,
    changes: pa.Table | None,
    pending: tuple[str, ...],
) -> engines.Submission:
    earlier = {run: found for run in pending if (found := notification_of(state, run)) is not None}
    every = [*earlier.values(), notification]
    changed = {address for one in every for address in one.changed_indexes}
    retired = {address for one in every for address in one.retired_indexes}
    return engines.Submission(
        name=site.name,
        site=site.site,
        run_id=run_id,
        indexes=tuple(engines.Index(address, address in changed) for address in notification.indexes),
        changes=CHANGES.empty_table() if changes is None else changes,
        listed=notification.listed,
        retired=tuple(sorted(retired - set(notification.indexes))),
        feeds=tuple(sorted({address for one in every for address in one.feeds})),
        pending_runs=tuple(run for run, found in earlier.items() if found.quiet_because is None),
        quiet_because=notification.quiet_because,
        all=notification.by_hand,
        earlier=lambda run: changes_of_run(state, run),
    )


def ready_engine(site: Site, name: str, environment: Environment) -> None:
    """Create an engine as for a submission, without a request. Raise ConfigError if a secret is missing."""
    _engine(site, name, environment)


def key_file(site: Site, environment: Environment) -> tuple[str, bytes] | None:
    """Return the name and the content of the IndexNow key file, or None if there is none.

    Raise ConfigError if the key is not available.
    """
    return _engine(site, "indexnow", environment).key_file()


def _whole_site(state: State, manifest: Manifest) -> Iterator[pa.Table]:
    """Yield all listed URLs as added: CHANGES, one table per file."""
    for entry in manifest.entries:
        if not entry.snapshot or manifest.sections[entry.section].view:
            continue
        rows = state.snapshot(entry.snapshot, ["loc", "lastmod"])
        count = rows.num_rows
        columns = [
            rows.column("loc"),
            pa.repeat(pa.scalar("added"), count),
            rows.column("lastmod"),
            pa.repeat(pa.scalar(entry.section), count),
        ]
        yield pa.table(columns, schema=CHANGES)


def _engine(site: Site, name: str, environment: Environment) -> engines.HttpEngine[Any]:
    settings = site.ping.engines().get(name)
    if settings is None:
        raise ConfigError(
            f"{site.name}: the site file names no engine {name}. It names: {', '.join(engines_of(site)) or 'none'}"
        )
    connection = environment.connection(settings.connection) if settings.connection is not None else None
    return engines.engine(name, revealed(f"ping.{name}", settings, environment.environ), connection)
