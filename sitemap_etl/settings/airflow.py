"""Settings of a site's tasks in Airflow: the keys below `airflow`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from sitemap_etl.settings.kinds import Duration, Integer, Settings, Several, Text, matching, once

Interpreter = Annotated[Text, matching(r"/.+", "the absolute path of a Python interpreter")]
TimeOfDay = Annotated[Text, matching(r"([01][0-9]|2[0-3]):[0-5][0-9]", "a time of day such as 05:00")]
Tag = Annotated[Text, matching(r".{1,100}", "a tag of at most 100 characters")]


class Airflow(Settings):
    """Settings of a site's tasks in Airflow. The command does not use them."""

    pool: Text | None = Field(
        default=None,
        description="Pool of the tasks that read sources, so that no more of them read a database at once than it has "
        "slots. Create it in Airflow first. Default: the pool of all other tasks, `default_pool`.",
        examples=["catalog"],
    )
    owner: Text | None = Field(
        default=None, description="Owner of the tasks, as Airflow shows and filters them.", examples=["search-team"]
    )
    priority: Integer | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Of several tasks that wait for a slot, those with the higher number start first. "
        "Default: Airflow's.",
    )
    timeout: Duration = Field(
        default=timedelta(hours=6),
        description="How long a task may take. One that takes longer is stopped and retried.",
    )
    tags: Annotated[Several[Tag], AfterValidator(once)] = Field(
        default=(), description="Tags of the DAG besides `sitemap`, by which Airflow filters its list."
    )
    executor: Text | None = Field(
        default=None,
        description="Executor of the tasks, where Airflow is configured with several.",
        examples=["CeleryExecutor"],
    )
    queue: Text | None = Field(
        default=None, description="Queue of the tasks: only workers that listen to it take them.", examples=["sitemaps"]
    )
    retries: Integer = Field(
        default=3, ge=0, le=100, description="How often a task is retried if something did not answer."
    )
    done_by: TimeOfDay | None = Field(
        default=None,
        description="Time of day, in the time zone of `schedule`, by which a scheduled run must have ended. If it has "
        "not, `notify` sends one message (`late`). Needs a `schedule` with one time of day.",
        examples=["05:00"],
    )
    small: Integer = Field(
        default=2_000_000,
        ge=0,
        description="Rows up to which one task does everything from extract to render, because each task costs "
        "seconds of its own. `0`: never.",
    )
    python: Interpreter | None = Field(
        default=None,
        description="Interpreter of an environment that has sitemap_etl with all its libraries. Tasks do their work "
        "with it, so that Airflow's own environment needs neither pyarrow nor DuckDB. Default: Airflow's.",
        examples=["/opt/sitemap/bin/python"],
    )
