"""A site file: one site, one state, one DAG."""

from __future__ import annotations

import re
import string
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Tag, model_validator

from sitemap_etl.settings.airflow import Airflow
from sitemap_etl.settings.engines import Ping
from sitemap_etl.settings.kinds import (
    Duration,
    Flag,
    Folder,
    FolderAddress,
    Integer,
    Origin,
    Pattern,
    Settings,
    Several,
    Text,
    as_list,
    matching,
    once,
    one_of,
    short_for,
    unlike,
)
from sitemap_etl.settings.notify import Notify
from sitemap_etl.settings.schedule import ScheduleKey
from sitemap_etl.settings.section import FeedFormat, Gates, Section

_SAFE = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
_LIST: Any = BeforeValidator(as_list, json_schema_input_type=str | list[str])


def _name(value: str, ending: str = r".*\.xml(\.gz)?") -> str:
    if not re.fullmatch(ending, value):
        raise unlike("a name that ends in .xml or .xml.gz")
    if not _SAFE.fullmatch(value) or any(part in (".", "..") for part in value.split("/")):
        raise unlike("a name of ASCII letters, digits and . _ ~ - (with / for folders)")
    return value


def _file_name(value: str) -> str:
    """Return the template. Raise if its names would not contain one section and one number."""
    try:
        fields = [(name, spec, how) for _, name, spec, how in string.Formatter().parse(value) if name is not None]
    except ValueError as error:
        raise unlike("a name such as sitemap-{section}-{number:05}.xml.gz") from error
    if sorted(name for name, _, _ in fields) != ["number", "section"]:
        raise unlike(
            "a name that contains {section} and {number} once each, such as sitemap-{section}-{number:05}.xml.gz"
        )
    for name, spec, how in fields:
        if how or (spec and (name == "section" or not re.fullmatch(r"0[1-9]d?", spec))):
            raise unlike("{section} without a format, and {number} or {number:05}")
    _name(value.format(section="x", number=1))
    return value


class Names(Settings):
    """Names of the published files, relative to `publish.to` and `publish.at`."""

    index: Annotated[Text, AfterValidator(_name)] = Field(
        default="sitemap.xml", description="Name of the index. Further indexes are numbered: `sitemap-2.xml`."
    )
    file: Annotated[Text, AfterValidator(_file_name)] = Field(
        default="sitemap-{section}-{number:05}.xml.gz",
        description="Name of the sitemaps, with `{section}` and `{number}`. A name that ends in `.xml` is written "
        "uncompressed.",
    )

    def index_name(self, slot: int = 1) -> str:
        """Return the key of an index. Slot 1 has the plain name, the others have a number before the extension."""
        if slot == 1:
            return self.index
        stem, ending = _split_ending(self.index)
        return f"{stem}-{slot}{ending}"

    def file_name(self, section: str, number: int) -> str:
        """Return the key of a section's sitemap with this number."""
        return self.file.format(section=section, number=number)

    def text_name(self, section: str, number: int) -> str:
        """Return the key of the text sitemap beside `file_name`."""
        stem, ending = _split_ending(self.file_name(section, number))
        return stem + ending.replace(".xml", ".txt")

    def feed_name(self, section: str, format_: FeedFormat) -> str:
        """Return the key of a section's feed."""
        return f"{section}.{format_}.xml"


def _split_ending(name: str) -> tuple[str, str]:
    ending = ".xml.gz" if name.endswith(".xml.gz") else ".xml"
    return name.removesuffix(ending), ending


class Publish(Settings):
    """Target of the published files, and their public address."""

    to: Folder = Field(
        description="Folder, or bucket and prefix, that the files are written to.",
        examples=["s3://shop-public/sitemaps"],
    )
    at: FolderAddress = Field(
        default="",
        description="Public address of `to`. Default: `site` followed by a slash.",
        examples=["https://shop.example/sitemaps/"],
    )
    root: Folder | None = Field(
        default=None,
        description="Folder or bucket that serves `site`/. robots.txt and key files are written to it. "
        "Default: `to` if `at` is `site`/, else none.",
    )
    names: Names = Field(default=Names.standard(), description="File names.")
    cache_control: (
        Annotated[Text, matching(r"[\x20-\x7e]+", "one line of ASCII, such as public, max-age=600")] | None
    ) = Field(
        default=None, description="`Cache-Control` header of published objects.", examples=["public, max-age=600"]
    )
    sse: (
        Annotated[Text, matching(r"AES256|aws:(kms|kms:dsse|fsx)(:.+)?", "AES256, aws:kms or aws:kms:KEY_ID")] | None
    ) = Field(default=None, description="Server-side encryption of S3: `AES256`, `aws:kms` or `aws:kms:KEY_ID`.")
    checksums: Literal["when_supported", "when_required"] = Field(
        default="when_supported",
        description="`when_required` for S3-compatible stores that don't support the newer checksums.",
    )
    conditional_writes: Flag = Field(
        default=True,
        description="`false` for S3-compatible stores without conditional writes. Concurrent runs are then "
        "not detected.",
    )
    cross_submit: Flag = Field(
        default=False,
        description="`true` if the sitemaps are on another host and robots.txt of the site, which sitemap_etl does "
        "not write, names them.",
    )
    check: Flag = Field(
        default=True,
        description="`false` if `at` is not public yet: nothing is requested there after publishing. By default the "
        "index and one sitemap are, and a warning names an address that answers 404 or serves other bytes.",
    )


PublishKey = Annotated[
    Annotated[Publish, short_for("to", Text), Tag("<text>")] | Annotated[Publish, Tag("<to>")],
    one_of("a folder or s3:// address, or {to: …, at: …}", "to"),
]


class Urls(Settings):
    """Rules for rewriting and excluding URLs."""

    same_as: Annotated[Several[Origin], AfterValidator(once), _LIST] = Field(
        default=(),
        description="Origins that are rewritten to `site`. URLs of any other origin are rejected.",
        examples=[["http://shop.example"]],
    )
    strip: Annotated[Several[Literal["tracking", "sessions"]], AfterValidator(once)] = Field(
        default=(), description="Query parameters to remove: `tracking` (utm_*, gclid …), `sessions`."
    )
    bare: Literal["allow", "reject"] = Field(
        default="allow",
        description="`reject` for a source whose addresses are absolute or begin with a slash: other values, such as "
        "`Total`, are rejected. By default they are paths.",
    )
    slash: Literal["add", "strip", "keep"] = Field(
        default="keep",
        description="`add` a slash to the end of each path, `strip` it, or `keep` both forms. `add` leaves files "
        "(`/a.pdf`) as they are.",
    )
    slash_except: Annotated[Several[Pattern], _LIST] = Field(
        default=(), description="Patterns of paths to which `slash` does not apply.", examples=[["/api/"]]
    )
    exclude: Annotated[Several[Pattern], _LIST] = Field(
        default=(),
        description="Path patterns as in robots.txt (`*` is any text, `$` the end). Matching URLs are excluded.",
        examples=[["/internal/", "*/print$"]],
    )
    respect_robots: Flag = Field(
        default=False, description="`true` excludes URLs that robots.txt of the site disallows."
    )


SectionName = Annotated[str, matching(r"[a-z][a-z0-9_]*", "a section name of a-z, 0-9 and _ that begins with a letter")]
STATE_FOLDER: Final = ".sitemap-etl"
"""Default state folder, beside the site file."""
SITE_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}"
SiteName = Annotated[
    Text, matching(SITE_NAME, "a name of letters, digits, . _ and - that begins with a letter or digit")
]


class Site(Settings):
    """One site, one state, one DAG. `site`, `publish` and one section are enough.

    If the file does not set `name` and `work`, `config` derives them from the location of the file.
    """

    extends: Text | None = Field(
        default=None,
        description="Base file that this file extends: mappings are merged by key, other values replaced, null "
        "removes a key.",
        examples=["_base.yaml"],
    )
    name: SiteName = Field(
        default="", description="ID of the DAG and name of the state. Default: the file name without its extension."
    )
    site: Origin = Field(description="Origin (scheme, host, port) of every loc.", examples=["https://shop.example"])
    schedule: ScheduleKey | None = Field(
        default=None, description="When the DAG runs. A plain cron expression is in UTC. Default: only when triggered."
    )
    work: Folder = Field(
        default="",
        description="Folder or bucket for state, reports and staging, under `<work>/<name>/`. Never public. "
        "Default: `.sitemap-etl` beside the file; none for a DAG.",
    )
    work_access: Literal["owner", "group"] = Field(
        default="owner",
        description="Who can read the state folder: its owner, or also its group, such as Airflow's API server.",
    )
    publish: PublishKey = Field(
        description="Address that the files are written to. A plain text is short for `{to: …}`.", examples=["./public"]
    )
    urls: Urls = Field(default=Urls.standard(), description="How URLs are rewritten, and which are excluded.")
    sections: dict[SectionName, Section] = Field(
        min_length=1,
        description="The sections by name. If several sections have the same loc, the first one lists it.",
        examples=["{pages: {from: …}}"],
    )
    ping: Ping = Field(default=Ping.standard(), description="Search engines to notify of changes.")
    notify: Notify = Field(default=Notify.standard(), description="Receivers of messages about runs.")
    gates: Gates = Field(default=Gates.standard(), description="Limits beyond which a publish is refused.")
    recent: Duration | None = Field(
        default=None,
        description="Adds sitemaps of the URLs that were added or changed in this time after the first publish, first "
        "in the index.",
        examples=["3d"],
    )
    airflow: Airflow = Field(default=Airflow.standard(), description="How the DAG runs.")
    keep: Integer = Field(default=14, ge=1, le=10_000, description="Number of distinct releases to keep for rollback.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Fill in values that depend on other keys: the address of the files, the gates of each section, and more."""
        publish = self.publish
        at = publish.at or f"{self.site}/"
        root = publish.root if publish.root is not None else publish.to if at == f"{self.site}/" else None
        same_as = tuple(origin for origin in self.urls.same_as if origin != self.site)
        self._settle(
            publish=publish.model_copy(update={"at": at, "root": root}),
            urls=self.urls.model_copy(update={"same_as": same_as}),
            sections={name: section.named(name, self.gates) for name, section in self.sections.items()},
        )
        return self

    @property
    def says_work(self) -> bool:
        """True if the file sets `work`. A DAG needs it, because its tasks can run on several machines."""
        return "work" in self.model_fields_set

    def beside(self, folder: str) -> Self:
        """Return the site. If the file does not set `work`, its state folder is in `folder`."""
        if not self.says_work:
            self._settle(work=f"{folder.rstrip('/')}/{STATE_FOLDER}")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, as a run stores them.

        Bases are merged, paths absolute and SELECTs read. Secrets are references.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
