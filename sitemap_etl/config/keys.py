"""The keys of a site file, as one writes them: what each takes, its default, its meaning.

These models are the only place where a key, a default or a limit stands: `schema`, the error messages and
the test of `docs/site-file.md` read them here. `resolve` makes them into the models that a run uses.
"""

from __future__ import annotations

import re
import string
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Tag

from sitemap_etl.config.engine_keys import PingKeys
from sitemap_etl.config.kinds import (
    Duration,
    Flag,
    FolderAddress,
    Integer,
    Keys,
    Origin,
    Pattern,
    Text,
    as_list,
    matching,
    one_of,
    unlike,
)
from sitemap_etl.config.models import Names
from sitemap_etl.config.rule_keys import Timezone
from sitemap_etl.config.section_keys import GatesKeys, SectionKeys
from sitemap_etl.config.timing import check_cron

Cron = Annotated[Text, AfterValidator(check_cron)]
_NAMES = Names()
_SAFE = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")


def _name(value: str, ending: str = r".*\.xml(\.gz)?") -> str:
    if not re.fullmatch(ending, value):
        raise unlike("a name that ends in .xml or .xml.gz")
    if not _SAFE.fullmatch(value) or any(part in (".", "..") for part in value.split("/")):
        raise unlike("a name of ASCII letters, digits and . _ ~ - (and / for folders)")
    return value


def _file_name(value: str) -> str:
    """The template, if it makes names with one section and one number in them."""
    try:
        fields = [(name, spec, how) for _, name, spec, how in string.Formatter().parse(value) if name is not None]
    except ValueError as error:
        raise unlike("a name such as sitemap-{section}-{number:05}.xml.gz") from error
    if sorted(name for name, _, _ in fields) != ["number", "section"]:
        raise unlike(
            "a name with {section} and {number} in it, each once, such as sitemap-{section}-{number:05}.xml.gz"
        )
    for name, spec, how in fields:
        if how or (spec and (name == "section" or not re.fullmatch(r"0[1-9]d?", spec))):
            raise unlike("{section} as it is, and {number} or {number:05} with its digits")
    _name(value.format(section="x", number=1))
    return value


class ScheduleKeys(Keys):
    """When the DAG runs."""

    cron: Cron = Field(description="Five cron fields, or a preset such as `@daily`.", examples=["0 2 * * *"])
    timezone: Timezone = Field(default="UTC", description="IANA time zone of the cron expression.")


class NamesKeys(Keys):
    """What the published files are called."""

    index: Annotated[Text, AfterValidator(_name)] = Field(
        default=_NAMES.index, description="The index; further ones get a number: `sitemap-2.xml`."
    )
    file: Annotated[Text, AfterValidator(_file_name)] = Field(
        default=_NAMES.file,
        description="The sitemaps, with `{section}` and `{number}` in it. A name in `.xml` is written uncompressed.",
    )


class PublishKeys(Keys):
    """Where the files go, and under which address they are read."""

    to: Text = Field(description="Folder, or bucket and prefix.", examples=["s3://shop-public/sitemaps"])
    at: FolderAddress | None = Field(
        default=None,
        description="Public address of `to`. Default: `site` and a slash.",
        examples=["https://shop.example/sitemaps/"],
    )
    root: Text | None = Field(
        default=None,
        description="Folder or bucket that serves `site`/: robots.txt and key files go there. "
        "Default: `to` where `at` is `site`/, else nowhere.",
    )
    names: NamesKeys = Field(default=NamesKeys(), description="What the files are called.")
    cache_control: Text | None = Field(
        default=None, description="`Cache-Control` of published objects.", examples=["public, max-age=600"]
    )
    sse: (
        Annotated[Text, matching(r"AES256|aws:(kms|kms:dsse|fsx)(:.+)?", "AES256, aws:kms or aws:kms:KEY_ID")] | None
    ) = Field(default=None, description="Server-side encryption of S3: `AES256`, `aws:kms` or `aws:kms:KEY_ID`.")
    checksums: Literal["when_supported", "when_required"] = Field(
        default="when_supported", description="`when_required` for S3 stores that don't know the newer checksums."
    )
    conditional_writes: Flag = Field(
        default=True,
        description="`false` for S3 stores without conditional writes; two runs at once are then not told apart.",
    )
    cross_submit: Flag = Field(
        default=False,
        description="`true`: another host may carry the sitemaps, though robots.txt of the site is not ours to write.",
    )


class UrlsKeys(Keys):
    """What is done to URLs, and which are left out."""

    same_as: Annotated[list[Origin], BeforeValidator(as_list, json_schema_input_type=str | list[str])] = Field(
        default_factory=list,
        description="Origins rewritten to `site`; any other is rejected.",
        examples=[["http://shop.example"]],
    )
    strip: list[Literal["tracking", "sessions"]] = Field(
        default_factory=list, description="Query parameters to take off: `tracking` (utm_*, gclid …), `sessions`."
    )
    exclude: Annotated[list[Pattern], BeforeValidator(as_list, json_schema_input_type=str | list[str])] = Field(
        default_factory=list,
        description="Patterns of paths as in robots.txt (`*` any text, `$` the end); what they match is excluded.",
        examples=[["/internal/", "*/print$"]],
    )
    respect_robots: Flag = Field(
        default=False, description="`true`: what the site's own robots.txt disallows is excluded."
    )


SECTION_NAME = r"[a-z][a-z0-9_]*"
SectionName = Annotated[str, matching(SECTION_NAME, "a section's name of a-z, 0-9 and _ that begins with a letter")]


class SiteKeys(Keys):
    """One site, one state, one DAG. `site`, `publish` and one section are enough."""

    extends: Text | None = Field(
        default=None,
        description="Base that this file is merged over: mappings by key, the rest replaced, null removes.",
        examples=["_base.yaml"],
    )
    name: (
        Annotated[
            Text,
            matching(
                r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}",
                "a name of letters, digits, . _ - that begins with a letter or digit",
            ),
        ]
        | None
    ) = Field(default=None, description="DAG id and owner of the state. Default: the file's name without its ending.")
    site: Origin = Field(description="The origin (scheme, host, port) of every loc.", examples=["https://shop.example"])
    schedule: (
        Annotated[
            Annotated[Cron, Tag("<text>")] | Annotated[ScheduleKeys, Tag("<cron>")],
            one_of("a cron expression or {cron: …, timezone: …}", "cron"),
        ]
        | None
    ) = Field(
        default=None, description="When the DAG runs; a plain expression is in UTC. Default: only when triggered."
    )
    work: Text | None = Field(
        default=None,
        description="Folder or bucket for state, reports and staging, under `<work>/<name>/`. Never public. "
        "Default: `../work` beside the file's folder.",
    )
    publish: Annotated[
        Annotated[Text, Tag("<text>")] | Annotated[PublishKeys, Tag("<to>")],
        one_of("a folder or s3:// address, or {to: …, at: …}", "to"),
    ] = Field(description="Where the files go; a plain text is short for `{to: …}`.", examples=["./public"])
    urls: UrlsKeys = Field(default=UrlsKeys(), description="What is done to URLs, and which are left out.")
    sections: dict[SectionName, SectionKeys] = Field(
        min_length=1,
        description="The sections, by name. The first to list a loc keeps it.",
        examples=["{pages: {from: …}}"],
    )
    ping: PingKeys = Field(default=PingKeys(), description="The engines that are told what changed.")
    gates: GatesKeys = Field(default=GatesKeys(), description="What refuses a publish.")
    recent: Duration | None = Field(
        default=None, description="Adds files of the URLs that changed lately, first in the index.", examples=["3d"]
    )
    keep: Integer = Field(
        default=14, ge=1, le=10_000, description="How many distinct published sets can be gone back to."
    )
