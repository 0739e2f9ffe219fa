"""The keys as written → the site as a run uses it: defaults, absolute paths, SELECTs, and the rules that span keys."""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from sitemap_etl.config import address, engines, names, reader, section, variables
from sitemap_etl.config.keys import PublishKeys, ScheduleKeys, SiteKeys
from sitemap_etl.config.layers import Layers
from sitemap_etl.config.models import Gates, Names, Publish, Schedule, Site, Urls
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.config.secret import Secret

NO_SITE: Final = "https://site.invalid"
"""Stands in for a site that is missing or wrong, so that the other mistakes are still found."""


class Resolver:
    """Makes parts of a site; mistakes go to `layers`."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers

    def folder(self, path: KeyPath, text: str) -> str:
        """An absolute folder or s3://bucket/prefix, without a slash at its end."""
        scheme, colon, rest = text.partition("://")
        if colon and scheme != "s3":
            self.layers.add(path, f"expected a folder or s3://bucket/prefix, found {scheme}://…")
        if colon:
            if not re.fullmatch(r"[a-z0-9][a-z0-9.-]+(/.*)?", rest, re.DOTALL):
                self.layers.add(path, "expected the name of a bucket after s3://, such as s3://shop-public/sitemaps")
            return text.rstrip("/")
        return self.file(path, text)

    def source(self, path: KeyPath, text: str) -> str:
        """An absolute path or glob, or an s3:// address."""
        scheme, colon, _ = text.partition("://")
        if not colon:
            return self.file(path, text)
        if scheme != "s3":
            self.layers.add(path, f"expected a path or s3://…, found {scheme}://…")
        return text

    def file(self, path: KeyPath, text: str) -> str:
        """An absolute path, relative to the file that wrote it."""
        if text.startswith("~"):
            self.layers.add(path, "~ is not expanded; write the whole path, or ${HOME}/…")
        return os.path.normpath(self.layers.written_in(path).parent / text)

    def select(self, path: KeyPath, sql: str | None, query: str | None) -> tuple[str | None, str | None]:
        """The SELECT's text, and the file it was read from."""
        if sql is None:
            return query, None
        here = (*path, "sql")
        file = self.file(here, sql)
        try:
            text = Path(file).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            self.layers.add(here, f"there is no file {file}")
        except UnicodeDecodeError:
            self.layers.add(here, f"{file} is not UTF-8")
        except OSError as error:
            self.layers.add(here, f"{file} can't be read: {error.strerror or error}")
        else:
            if not text.strip():
                self.layers.add(here, f"{file} is empty; expected a SELECT")
            return text, file
        return "", file

    def secret(self, path: KeyPath, text: str) -> Secret:
        """The secret, by reference."""
        if variables.only_plain(text):
            return Secret(template=text)
        return Secret(file=str(self.layers.written_in(path)), key=reader.shown(path))


def site(keys: SiteKeys, layers: Layers, broken: Collection[str]) -> Site:
    """The site of these keys. `broken` names top keys whose values are not all the user's: something in them was wrong.

    Mistakes go to `layers`; only without any is the answer of use.
    """
    resolver = Resolver(layers)
    origin = keys.site
    publish = _publish(keys.publish, origin, resolver)
    if not {"site", "publish"} & set(broken):
        _check_scope(origin, publish, layers)
    file = next(iter(layers.files.values()))
    name = keys.name or (file.stem if "name" in broken else _name(file, layers))
    work = resolver.folder(("work",), keys.work) if keys.work else os.path.normpath(file.parent / ".." / "work")
    if "publish" not in broken:
        _check_private(work, name, publish, layers, stated=keys.work is not None)
    gates = section.gates(keys.gates, Gates())
    sections = {name_: section.section(name_, below, gates, resolver) for name_, below in keys.sections.items()}
    names.check(sections, publish.names, layers, recent=keys.recent is not None)
    urls = Urls(
        same_as=tuple(dict.fromkeys(other for other in keys.urls.same_as if other != origin)),
        strip=frozenset(keys.urls.strip),
        exclude=tuple(keys.urls.exclude),
        respect_robots=keys.urls.respect_robots,
    )
    return Site(
        name=name,
        site=origin,
        schedule=_schedule(keys.schedule),
        work=work,
        publish=publish,
        urls=urls,
        sections=sections,
        ping=engines.ping(keys.ping, resolver),
        gates=gates,
        recent=keys.recent,
        keep=keys.keep,
    )


def _name(file: Path, layers: Layers) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", file.stem):
        hint = "a file that begins with _ is a base for others" if file.stem.startswith("_") else "it is not"
        layers.add(("name",), f"the file's name can't be the site's ({hint}); write name: shop")
    return file.stem


def _schedule(keys: str | ScheduleKeys | None) -> Schedule | None:
    if keys is None:
        return None
    if isinstance(keys, str):
        return Schedule(cron=keys)
    return Schedule(cron=keys.cron, timezone=keys.timezone)


def _publish(keys: str | PublishKeys, site: str, resolver: Resolver) -> Publish:
    if isinstance(keys, str):
        path: KeyPath = ("publish",)
        keys = PublishKeys(to=keys)
    else:
        path = ("publish", "to")
    to = resolver.folder(path, keys.to)
    at = keys.at or f"{site}/"
    root = resolver.folder(("publish", "root"), keys.root) if keys.root else to if at == f"{site}/" else None
    return Publish(
        to=to,
        at=at,
        root=root,
        names=Names(index=keys.names.index, file=keys.names.file),
        cache_control=keys.cache_control,
        sse=keys.sse,
        checksums=keys.checksums,
        conditional_writes=keys.conditional_writes,
        cross_submit=keys.cross_submit,
    )


def _check_scope(site: str, publish: Publish, layers: Layers) -> None:
    """Another host needs the site's robots.txt, which is written where `root` is, or the word of the user."""
    if publish.root is None and not publish.cross_submit and address.scope_problem(site, publish.at) == "other_host":
        layers.add(
            ("publish", "at"),
            f"is on another host than {site}, and engines drop such sitemaps unless robots.txt of the site names them; "
            f"set publish.root to what serves {site}/, or publish.cross_submit: true where that is taken care of",
        )


def _check_private(work: str, name: str, publish: Publish, layers: Layers, *, stated: bool) -> None:
    """State holds what is not for everyone: it lies under nothing that is served, nor the other way round."""
    state = f"{work}/{name}"
    for key, public in (("to", publish.to), ("root", publish.root)):
        if public is None:
            continue
        if _within(work, public) or _within(state, public):
            layers.add(
                ("work",) if stated else (),
                f"work is {work}, which publish.{key} ({public}) makes public; put it elsewhere",
            )
            return
        if _within(public, state):
            layers.add(("publish",), f"{key} is {public}, inside the state in {state}; put it elsewhere")
            return


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")
