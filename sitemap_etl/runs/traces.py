"""Find rows in the state: the objects that name them, their URLs, and the reasons against forgetting them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl.arrow import column_of
from sitemap_etl.config import Section, Site
from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError
from sitemap_etl.explain.lookup import PublishedSet, Shelf
from sitemap_etl.frames import CHANGES
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Environment, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.changes import changes_of_run, notification_of
from sitemap_etl.state.checked import open_checked
from sitemap_etl.state.codec import unseal
from sitemap_etl.state.erasure import Marks
from sitemap_etl.state.mirror import KEY, OWN, bucket_of, read_mirror, rows_with_key, stored_rows
from sitemap_etl.state.records import Checked, Manifest, Splits
from sitemap_etl.state.store import read_document
from sitemap_etl.transform import transform
from sitemap_etl.urls import UrlRules, canonicalize


class Traces:
    """Search of a site's state for some rows. Raise Refused if a publish was interrupted.

    `marks`: names of the rows, after `find`. `rows`: versions of them in mirrors. `manifests`, `mirrors`: by key.
    `current`: the current release.
    """

    def __init__(self, site: Site, environment: Environment) -> None:
        self.site = site
        self.environment = environment
        self.work = open_work(site, environment)
        self.state = state_of(site, environment, self.work)
        self.held = self.state.held()
        if self.held.current.pending is not None:
            raise Refused(
                "A publish was interrupted, and what is public is not known. Nothing was changed; run the site, then "
                "forget"
            )
        self.rules = UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip))
        self.rows = 0
        self.manifests = {key: self._manifest(key) for key in self.keys(layout.MANIFESTS)}
        self.mirrors = {key: read_mirror(self.work, key) for key in self._mirror_keys()}
        self.marks = Marks()
        self.current = self.manifests.get(self.held.current.manifest or "")

    def keys(self, prefix: str) -> list[str]:
        return [stat.key for stat in self.work.list(prefix)]

    def _manifest(self, key: str) -> Manifest:
        found = self.state.manifest(key)
        assert found is not None
        return found

    def _mirror_keys(self) -> set[str]:
        """Return keys of the mirrors that current.json or a manifest references."""
        named = set(self.held.current.mirrors.values())
        for manifest in self.manifests.values():
            named |= {one.mirror for one in manifest.sections.values() if one.mirror is not None}
        there = set(self.keys(layout.MIRRORS))
        return {key for key in named if key in there or key in self.held.current.mirrors.values()}

    # --- which rows ---

    def _demand_keys(self, section: str | None) -> None:
        """Raise ConfigError if no section has a key, neither now nor in a stored mirror."""
        keyed = {name for name, settings in self.site.sections.items() if settings.keyed}
        keyed |= {generation.section for generation in self.mirrors.values()}
        if not keyed:
            raise ConfigError("--key: no section of this site has a key. Name the rows with --url")
        if section is not None and section not in keyed:
            raise ConfigError(
                f"--section {section}: it has no key, only {', '.join(sorted(keyed))}. Name its rows with --url"
            )

    def find(self, keys: Sequence[str], urls: Sequence[str], section: str | None) -> None:
        """Find the sections that have the keys, and every URL of the rows."""
        owners: dict[str, set[str]] = {}
        locs: set[str] = set()
        raw: set[str] = set(urls)
        if keys:
            self._demand_keys(section)
        for generation in self.mirrors.values():
            for key in keys if section in (None, generation.section) else ():
                rows = rows_with_key(self.work, generation, key)
                if rows is not None:
                    owners.setdefault(generation.section, set()).add(key)
                    self.rows += rows.num_rows
                    self._locs(generation.section, rows, locs, raw)
        wanted = pa.array(list(keys), pa.string())
        for _, table in self.aside():
            for row in table.filter(pc.is_in(table.column("key"), wanted)).to_pylist():  # of a few keys
                if section in (None, row["section"]):
                    owners.setdefault(row["section"], set()).add(row["key"])
                    locs |= {row["canonical"]} - {None}
                    raw |= {row["loc"]} - {None}
        for key in keys:
            having = sorted(name for name, found in owners.items() if key in found)
            if len(having) > 1:
                raise ConfigError(f"--key {key}: sections {', '.join(having)} have it. Name one with --section")
        locs |= set(canonicalize(pa.array(sorted(raw), pa.string()), self.rules).loc.drop_null().to_pylist())
        raw = {text for text in raw if text.strip()}
        self.marks = Marks({name: frozenset(found) for name, found in owners.items()}, frozenset(locs), frozenset(raw))

    def _locs(self, name: str, rows: pa.Table, locs: set[str], raw: set[str]) -> None:
        """Add the URLs that the rules make of these rows, and the source's own values."""
        section = self.site.sections.get(name)
        column = "loc" if section is None else section.columns.get("loc", "loc")
        if column in rows.column_names:
            raw |= set(rows.column(column).cast(pa.string()).drop_null().to_pylist())
        if section is not None:
            try:
                locs |= _ruled(self.site, section, rows, self.environment)
            except SitemapEtlError:  # the rules have changed and need other columns
                return

    def aside(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows that runs did not list, in batches, each with the key of its table."""
        for key in self.keys(layout.REPORTS):
            if key == layout.splits(layout.run_of(key)):
                for table in self.splits(key).tables.values():
                    if self.work.stat(table.key) is not None:
                        yield from ((table.key, rows) for rows in self.rows_of(table))

    def splits(self, key: str) -> Splits:
        found = read_document(self.work, key, Splits)
        return Splits() if found is None else found[0]

    def rows_of(self, table: Checked) -> Iterator[pa.Table]:
        file = pq.ParquetFile(pa.PythonFile(open_checked(self.work, table), mode="r"))
        yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches())

    # --- what speaks against it ---

    def refuse(self) -> None:
        """Raise Refused if a row would return or is public."""
        nothing = "Nothing was changed"
        for name, keys in self.marks.keys.items():
            current = self.held.current.mirrors.get(name)
            for key in sorted(keys) if current is not None else ():
                mirror = self.mirrors[current or ""]
                bucket = mirror.buckets[bucket_of(key, len(mirror.buckets))]
                if any(key in table.column(KEY).to_pylist() for table in stored_rows(self.work, [bucket], [], [])):
                    raise Refused(
                        f"section {name}: the row with key {key} is still in the source, as far as the last run read "
                        f"it. {nothing}. Remove it there, or leave it out of the SELECT, and run the site (with --full "
                        "if the SELECT does not yield rows that were deleted); then forget it"
                    )
        listed = None if self.current is None else PublishedSet(self.current, Shelf(self.state))
        for loc in sorted(self.marks.locs):
            for found in [] if listed is None else listed.find(loc):
                raise Refused(
                    f"{loc} is listed by section {found.section}, for this row or another one. {nothing}. Remove its "
                    "rows from the source, or exclude them, and publish; then forget it"
                )
        self._refuse_read()
        for entry in self.current.entries if self.current is not None else ():
            rows = self.state.snapshot(entry.snapshot, ["loc", "alternates"]) if entry.snapshot else None
            if rows is not None and (linking := self.marks.linking(column_of(rows, "alternates"))).any():
                page = rows.column("loc").filter(pa.array(linking))[0].as_py()
                raise Refused(
                    f"{page} is published with a link to a URL of this row (hreflang). {nothing}. Remove the link from "
                    "the source and publish; then forget the row"
                )

    def _refuse_read(self) -> None:
        """Raise Refused if the last run read a row. Sections with a mirror are checked there."""
        last: dict[str, str] = {}
        for key in sorted(self.keys(layout.REPORTS)):
            run_id = layout.run_of(key)
            if key == layout.splits(run_id):
                last |= dict.fromkeys(self.splits(key).read, run_id)
        for key, table in self.aside():
            rows = table.filter(pa.array(self.marks.of_aside(table)))
            for name, reason in zip(rows.column("section").to_pylist(), rows.column("reason").to_pylist(), strict=True):
                if last.get(name) == layout.run_of(key) and name not in self.held.current.mirrors:
                    raise Refused(
                        f"section {name}: the last run read this row, and did not list it ({reason}). Nothing was "
                        "changed. Remove it from the source and run the site; then forget it"
                    )

    # --- where else it is named ---

    def changed(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the changes of each run."""
        for key in self.keys(layout.CHANGES):
            run_id = layout.run_of(key)
            if key == layout.changes(run_id):
                notification = notification_of(self.state, run_id)
                if notification is not None:
                    yield run_id, changes_of_run(self.state, run_id) or CHANGES.empty_table()

    def documents(self) -> Iterator[Any]:
        """Yield every JSON object of the state and the reports."""
        for prefix in (layout.CHANGES, layout.ATTEMPTS, layout.REPORTS):
            for key in self.keys(prefix):
                stored = self.work.get(key) if key.endswith(".json") else None
                if stored is not None:
                    yield unseal(stored.data, self.work.url_of(key))

    def names(self, body: Any) -> bool:
        """Return True if a JSON value names the rows."""
        if isinstance(body, str):
            return self.marks.in_text(body)
        values = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
        return any(self.names(value) for value in values)


def _ruled(site: Site, section: Section, rows: pa.Table, environment: Environment) -> set[str]:
    """Return the canonical URLs of raw rows under the section's rules."""
    raw = rows.drop_columns([name for name in OWN if name in rows.column_names])
    rules = replace(rules_of(site, section, environment.clock(), None), available=tuple(raw.column_names), deleted=None)
    done = transform(raw, rules, read_at=environment.clock(), row=pa.array(np.arange(raw.num_rows)))
    tables = [done.inventory.column("loc"), done.excluded.column("canonical"), done.rejected.column("canonical")]
    return {loc for table in tables for loc in table.drop_null().to_pylist()}
