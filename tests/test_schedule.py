"""When a site's DAG runs: accepted cron expressions, those that never match, and others that Airflow can't run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sitemap_etl.settings.schedule import AssetSchedule, Schedule
from tests.site_files import MINIMAL, loaded, problems


@pytest.mark.parametrize(
    "cron",
    [
        "0 2 30 feb *",
        "0 0 30-31 2 *",
        "0 0 30/1 2 *",
        "0 0 31 4-6/2 *",
        "0 0 29 feb mon#1",
        "0 0 15 * mon#1",
        "0 0 L * mon#1",
        "0 0 30 2 mon#5",
    ],
)
def test_a_cron_expression_that_never_matches_is_an_error(tmp_path, cron):
    (told,) = problems(tmp_path, f"{MINIMAL}schedule: '{cron}'\n")
    assert told == "shop.yaml:6: schedule: the cron expression never matches: none of its months has such a day"


@pytest.mark.parametrize("key", ["schedule: '{}'", "schedule: {{assets: x, or_cron: '{}'}}"])
@pytest.mark.parametrize("days", ["mon#1,tue", "tue,mon#1", "mon#1,*"])
def test_numbered_weekdays_cannot_be_combined_with_plain_ones(tmp_path, key, days):
    (told,) = problems(tmp_path, f"{MINIMAL}{key.format(f'0 2 * * {days}')}\n")
    assert f'expected days of the week that all have a number, as in mon#1,tue#1, or none, got "{days}"' in told


@pytest.mark.parametrize(
    "cron",
    [
        "0 2 29 feb *",
        "0 2 30 feb mon",
        "0 2 30 feb 1-0",
        "0 2 30 feb */1",
        "0 0 L 2 *",
        "0 0 1,L * *",
        "0 0 30-2 2 *",
        "0 0 */31 2 *",
        "0 0 L * fri#5",
        "0 2 * * mon#1,wed#3",
        "0 22-2/2 * dec-feb fri-mon",
        "0 0 29 2 mon#5",
        "5/10 * * * 7",
        "@quarterly",
    ],
)
def test_a_cron_expression_that_matches_is_accepted_unchanged(tmp_path, cron):
    assert loaded(tmp_path, f"{MINIMAL}schedule: '{cron}'\n").schedule == Schedule(cron=cron)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Cron expressions, most of them for few days."""

    def field(low: int, high: int, *others: str) -> str:
        one = st.integers(low, high)
        step = st.integers(1, high).map("/{}".format)
        # Airflow takes 5-5 for the whole field.
        spans = st.lists(one, min_size=2, max_size=2, unique=True).map(lambda ends: f"{ends[0]}-{ends[1]}")
        items = st.one_of(
            one.map(str),
            spans,
            st.builds("{}{}".format, st.one_of(st.just("*"), one, spans), step),
            *map(st.just, others),
        )
        return ",".join(draw(st.lists(items, min_size=1, max_size=2)))

    days = draw(st.sampled_from(["*", field(28, 31, "L"), field(1, 31)]))
    weekdays = draw(st.sampled_from(["*", field(0, 6), "1#1", "5#5,0#4"]))
    return f"0 2 {days} {field(1, 12, 'feb')} {weekdays}"


@given(expressions())
def test_exactly_the_cron_expressions_that_airflow_can_run_are_accepted(cron: str) -> None:
    croniter = pytest.importorskip("croniter")  # Airflow's
    try:
        croniter.croniter(cron).get_next()
    except croniter.CroniterBadCronError:
        return  # a range such as 5-5/9, which this Airflow knows nothing of
    except croniter.CroniterBadDateError:
        with pytest.raises(ValidationError, match="never matches"):
            Schedule(cron=cron)
    else:
        assert Schedule(cron=cron).cron == cron


@pytest.mark.parametrize("form", [Schedule, AssetSchedule])
def test_a_schedule_error_found_only_by_airflow_affects_only_its_site(tmp_path, form) -> None:
    pytest.importorskip("airflow")
    from sitemap_etl.airflow.assets import problems_of

    site = loaded(tmp_path, f"{MINIMAL}work: ../work\n")
    asked = {"assets": ("x",), "or_cron": None} if form is AssetSchedule else {}
    key, at = ("or_cron", "schedule.or_cron") if form is AssetSchedule else ("cron", "schedule")
    for cron, why in (("0 2 30 2 *", "failed to find"), ("0 2 * * mon#1,tue", "does not support mixing")):
        # As if the rules of the settings knew less than Airflow does.
        schedule = form.model_construct(**{**asked, key: cron}, timezone="UTC")
        (told,) = problems_of(site.model_copy(update={"schedule": schedule}))
        assert told.startswith(f'{at}: Airflow can\'t run by "{cron}" in the time zone UTC (')
        assert why in told
    fine = form.model_construct(**{**asked, key: "0 2 * * *"}, timezone="Europe/Berlin")
    assert list(problems_of(site.model_copy(update={"schedule": fine}))) == []


@pytest.mark.parametrize("ago", [timedelta(minutes=2), timedelta(minutes=20)])
def test_a_first_run_is_not_lost_if_its_file_is_parsed_again_at_its_start_time(tmp_path, ago) -> None:
    """Airflow plans the next run of a site whenever it parses its file, and starts it some seconds after its time."""
    pytest.importorskip("airflow")
    from airflow.serialization.encoders import coerce_to_core_timetable
    from airflow.timetables.base import TimeRestriction

    from sitemap_etl.airflow.assets import schedule_of

    begins = (datetime.now(UTC) - ago).replace(second=0, microsecond=0)
    site = loaded(tmp_path, f"{MINIMAL}schedule: '{begins.minute} {begins.hour} * * *'\n")
    run = coerce_to_core_timetable(schedule_of(site)).next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False)
    )
    assert run.run_after == (begins if ago < timedelta(minutes=5) else begins + timedelta(days=1))
