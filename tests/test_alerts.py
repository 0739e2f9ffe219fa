"""Messages about the end of a run: one to each receiver, in every case that they subscribed to."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl import alerts
from sitemap_etl.alerts import Alert
from sitemap_etl.config import revealed
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.runs import tasks
from sitemap_etl.runs.alerts import alert_of, watching
from sitemap_etl.runs.local import ping_locally, run_locally
from sitemap_etl.runs.status import past_runs
from sitemap_etl.runs.story import counts_of
from sitemap_etl.settings import Notify
from sitemap_etl.state.records import Attempt, Counts, Options
from tests.support.command import call
from tests.support.engines import RESET, Reply, Request, Side
from tests.support.sites import FIRST_NIGHT, TestSite, pages

CLOSED = "http://127.0.0.1:1/secret-token"


@pytest.fixture
def ear() -> Iterator[Side]:
    with Side(lambda _request: Reply(200)) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path, ear: Side) -> TestSite:
    made = TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))
    made.keys["notify"] = {"webhook": f"{ear.url}/hook", "slack": f"{ear.url}/slack", "healthcheck": f"{ear.url}/beat"}
    return made


def heard(ear: Side, path: str) -> list[Any]:
    """What was sent to an address."""
    found = [request for request in ear.requests if request.path.startswith(path)]
    return [json.loads(request.body) if request.path != "/beat" else request.body.decode() for request in found]


def beats(ear: Side) -> list[str]:
    return [request.target.removeprefix("/beat") for request in ear.requests if request.path.startswith("/beat")]


def night(site: TestSite, number: int, **options: Any) -> None:
    """Run the site as the command does."""
    environment = site.at(FIRST_NIGHT + timedelta(days=number - 1))
    with watching(site.load(), environment, dry_run=options.get("dry_run", False)) as watched:
        finished = run_locally(site.load(), Options(**options), environment, jobs=1)
        watched.summary = ping_locally(finished, environment)


# --- which outcomes -----------------------------------------------------------------------------------


def test_a_successful_run_is_reported_to_the_monitor_only(site: TestSite, ear: Side) -> None:
    night(site, 1)
    night(site, 2)
    assert (heard(ear, "/hook"), heard(ear, "/slack")) == ([], [])
    assert beats(ear) == ["/start", "", "/start", ""]


def test_a_refused_run_is_reported_once_with_reason_gate_command_and_report(site: TestSite, ear: Side) -> None:
    night(site, 1)
    site.export("products", pages(10))
    night(site, 2)
    (message,) = heard(ear, "/hook")
    refused = past_runs(site.load(), site.environment)[0]
    assert message["version"] == 1
    assert (message["status"], message["name"], message["run_id"]) == ("refused", "shop", refused.run_id)
    assert "products would drop 90 of 100 URLs" in message["reason"]
    assert f"sitemap-etl publish SITE.yaml {refused.run_id} --force products.max_drop" in message["reason"]
    assert message["gates"] == ["products.max_drop", "max_drop"]
    assert message["look"] == "sitemap-etl status SITE.yaml"
    assert message["report"] == refused.report
    assert (message["listed"], message["counts"]["removed"]) == (10, 90)
    (slack,) = heard(ear, "/slack")
    assert slack == {"text": message["text"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    assert beats(ear)[-2:] == ["/start", "/fail"]


def test_a_run_that_fails_before_it_begins_is_reported_with_its_error(site: TestSite, ear: Side) -> None:
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError) as failed:
        night(site, 1)
    (message,) = heard(ear, "/hook")
    assert (message["status"], message["reason"], message["listed"]) == ("failed", str(failed.value), None)
    assert beats(ear) == ["/start", "/fail"]


def test_a_run_with_a_failed_engine_is_reported_with_that_engine(site: TestSite, ear: Side) -> None:
    site.keys["ping"] = {"http_ping": {"url": "http://127.0.0.1:1/?sitemap={sitemap}", "patience": 0}}
    night(site, 1)
    (message,) = heard(ear, "/hook")
    assert message["status"] == "partial"
    assert message["reason"].startswith("http_ping failed: ")


def test_a_kept_section_is_reported_with_its_reason(site: TestSite, ear: Side) -> None:
    site.section("blog", pages(30, start=500), on_error="keep")
    night(site, 1)
    (site.folder / "blog.csv").unlink()
    night(site, 2)
    (message,) = heard(ear, "/hook")
    assert message["reason"].startswith("section blog stays as published: ")


def test_other_outcomes_are_reported_if_configured(site: TestSite, ear: Side) -> None:
    site.keys["notify"]["on"] = ["published", "interrupted"]
    night(site, 1)
    (message,) = heard(ear, "/hook")
    assert (message["status"], message["listed"], message["look"]) == ("published", 100, None)

    def interrupted(_stage: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    site.environment = replace(site.environment, advance=interrupted)
    with pytest.raises(KeyboardInterrupt):
        night(site, 2)
    assert heard(ear, "/hook")[-1]["status"] == "interrupted"
    assert len(heard(ear, "/hook")) == 2


def test_airflow_notifiers_are_used_only_by_runs_of_the_dag(site: TestSite) -> None:
    said: list[str] = []
    site.environment = replace(site.environment, log=said.append)
    site.keys["notify"] = {"on": ["published"], "airflow": {"team": {"class": "some.Notifier"}}}
    night(site, 1)
    assert (
        "warning: notify.airflow.team: the message was not sent: only a run of the DAG has Airflow's notifiers" in said
    )


def test_airflow_notifiers_get_their_arguments_and_the_message(site: TestSite) -> None:
    told: list[Any] = []
    site.keys["notify"] = {
        "on": ["published"],
        "airflow": {"team": {"class": "some.Notifier", "args": {"to": "${WHO}"}}},
    }
    environ = {**site.environment.environ, "WHO": "seo@shop.example"}
    site.environment = replace(site.environment, environ=environ, announce=lambda *given: told.append(given))
    night(site, 1)
    night(site, 2)  # nothing changed
    ((path, arguments, alert),) = told
    assert (path, arguments, alert.status) == ("some.Notifier", {"to": "seo@shop.example"}, "published")


def test_nobody_is_notified_of_a_dry_run(site: TestSite, ear: Side) -> None:
    night(site, 1, dry_run=True)
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError):
        night(site, 2, dry_run=True)
    assert ear.requests == []


# --- once ---------------------------------------------------------------------------------------------


def test_a_scheduler_run_is_reported_once_however_often_the_scheduler_reports_its_end(
    site: TestSite, ear: Side
) -> None:
    night(site, 1)
    site.export("products", pages(10))
    world = site.at(FIRST_NIGHT + timedelta(days=1))
    key = tasks.start(site.load(), Options(), world, owner="shop/tonight").key
    tasks.build(key, world)
    for _ in range(2):  # the second try of a person who clears the task
        with pytest.raises(SitemapEtlError):
            tasks.publish(key, world)
        tasks.abandon(site.load(), "shop/tonight", world)
        tasks.conclude(site.load(), "shop/tonight", world, good=False)
    (message,) = heard(ear, "/hook")
    assert message["status"] == "refused"
    assert message["gates"] == ["products.max_drop", "max_drop"]


def test_a_run_that_succeeds_after_clearing_is_reported_to_the_monitor_again(site: TestSite, ear: Side) -> None:
    night(site, 1)
    world = site.at(FIRST_NIGHT + timedelta(days=1))
    export = site.folder / "products.csv"
    key = tasks.start(site.load(), Options(), world, owner="shop/tonight").key
    away = export.rename(site.folder / "away.csv")
    with pytest.raises(SitemapEtlError):
        tasks.build(key, world)
    tasks.conclude(site.load(), "shop/tonight", world, good=False)
    away.rename(export)
    tasks.build(key, world)  # a person clears the tasks
    tasks.publish(key, world)
    for _ in range(2):
        tasks.conclude(site.load(), "shop/tonight", world, good=True)
    assert [message["status"] for message in heard(ear, "/hook")] == ["failed"]
    assert beats(ear)[-2:] == ["/fail", ""]


def test_a_scheduler_run_without_a_recorded_outcome_is_reported_as_failed(site: TestSite, ear: Side) -> None:
    site.keys["work"] = "s3://nowhere/work"
    site.environment = replace(site.environment, open_storage=_unavailable)
    said: list[str] = []
    site.environment = replace(site.environment, log=said.append)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=True)
    assert (ear.requests, len(said)) == ([], 1)
    assert "it does not answer" in said[0]
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert (message["status"], message["run_id"]) == ("failed", None)
    assert "it does not answer" in message["reason"]


def _unavailable(*_given: object, **_options: object) -> Any:
    from sitemap_etl.errors import Unavailable

    raise Unavailable("it does not answer")


@pytest.mark.parametrize("leased", [True, False])
def test_a_killed_scheduler_run_is_reported_as_failed(site: TestSite, ear: Side, leased: bool) -> None:
    tasks.start(site.load(), Options(), site.environment, owner="shop/tonight")
    if not leased:  # the machine was down for longer than a lease lasts
        (site.folder / "work" / "shop" / "state" / "lease.json").unlink()
    tasks.abandon(site.load(), "shop/tonight", site.environment)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert message["status"] == "failed"
    assert "killed" in message["reason"]


def test_a_scheduler_run_whose_task_was_stopped_from_outside_is_reported_as_failed(
    site: TestSite, ear: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_given: object, **_options: object) -> None:
        raise KeyboardInterrupt

    key = tasks.start(site.load(), Options(), site.environment, owner="shop/tonight").key
    monkeypatch.setattr(tasks, "build_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        tasks.build(key, site.environment)
    assert past_runs(site.load(), site.environment)[0].status == "interrupted"
    tasks.abandon(site.load(), "shop/tonight", site.environment)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert (message["status"], "killed" in message["reason"]) == ("failed", True)
    assert past_runs(site.load(), site.environment)[0].status == "failed"


def test_a_process_with_read_only_state_reports_a_killed_run_as_failed(site: TestSite, ear: Side) -> None:
    tasks.start(site.load(), Options(), site.environment, owner="shop/tonight")
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert (message["status"], "killed" in message["reason"]) == ("failed", True)


def test_a_plan_that_was_killed_and_retried_is_not_reported(site: TestSite, ear: Side) -> None:
    tasks.start(site.load(), Options(), site.environment, owner="shop/tonight")
    key = tasks.start(
        site.load(), Options(), site.environment, owner="shop/tonight", again=datetime(2026, 1, 1, tzinfo=UTC)
    ).key
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError) as failed:
        tasks.build(key, site.environment)
    tasks.abandon(site.load(), "shop/tonight", site.environment)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert (message["reason"], message["run_id"]) == (str(failed.value), Path(key).name)


def test_a_scheduled_dry_run_that_fails_while_planning_notifies_nobody(site: TestSite, ear: Side) -> None:
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError) as failed:
        tasks.start(site.load(), Options(dry_run=True), site.environment, owner="shop/tonight")
    tasks.abandon(site.load(), "shop/tonight", site.environment)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    assert ear.requests == []
    (known,) = past_runs(site.load(), site.environment)
    assert (known.dry_run, known.status, known.error) == (True, "failed", str(failed.value))


def test_a_recreated_run_does_not_report_the_outcome_of_its_namesake(site: TestSite, ear: Side) -> None:
    key = tasks.start(site.load(), Options(), site.environment, owner="shop/tonight").key
    tasks.build(key, site.environment)
    tasks.publish(key, site.environment)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=True)
    heard(ear, "/hook")
    count = len(ear.requests)
    made = datetime.now(UTC) + timedelta(seconds=1)
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False, began=made)
    assert len(ear.requests) > count
    message = heard(ear, "/hook")[-1]
    assert (message["status"], message["reason"]) == ("failed", "Its log says why")


def test_a_failure_without_any_recorded_run_names_the_state_folder_that_was_searched(site: TestSite, ear: Side) -> None:
    site.keys["work"] = str(site.folder / "not-mounted-here")
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=True)
    assert ear.requests == []
    tasks.conclude(site.load(), "shop/tonight", site.environment, good=False)
    (message,) = heard(ear, "/hook")
    assert "finds no run that is remembered in" in message["reason"]
    assert "not-mounted-here" in message["reason"]


# --- when it can't be sent ----------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_undeliverable_message_is_a_warning_without_secrets_and_changes_nothing(site: TestSite, ear: Side) -> None:
    said: list[str] = []
    site.environment = replace(site.environment, log=said.append)
    site.keys["notify"] = {"webhook": f"{ear.url}/hook", "slack": CLOSED, "healthcheck": CLOSED, "on": ["published"]}
    night(site, 1)
    assert len(heard(ear, "/hook")) == 1
    assert [line.split(":")[1].strip() for line in said if line.startswith("warning: notify")] == [
        "notify.healthcheck",
        "notify.slack",
        "notify.healthcheck",
    ]
    assert "the message was not sent: 127.0.0.1 can't be reached" in "\n".join(said)
    assert "secret-token" not in "\n".join(said)
    assert past_runs(site.load(), site.environment)[0].status == "published"


def test_an_unset_variable_is_a_warning_and_found_by_validate(site: TestSite) -> None:
    site.keys["notify"] = {"slack": "${SLACK_HOOK_THAT_IS_NOT_SET}"}
    done = call("run", site.path)
    assert done.code == 0
    assert done.err.count("nobody was notified: notify.slack: ") == 1
    assert "SLACK_HOOK_THAT_IS_NOT_SET" in done.err
    done = call("validate", site.path, "--connect")
    assert done.code == 2
    assert "notify.slack: " in done.err
    assert call("validate", site.path).code == 0


MALFORMED = [
    "https://[hooks.example/T0",
    "http://[::1",
    "https://hooks.example:x/T0",
    "https://hooks.example:99999/T0",
    "https://hooks .example/T0",
    "https://",
    "not an address",
    "",
]


@pytest.mark.parametrize("value", MALFORMED)
@pytest.mark.parametrize("key", ["webhook", "slack", "healthcheck"])
def test_a_malformed_address_in_a_variable_is_a_warning_and_the_run_goes_on(
    site: TestSite, key: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", value)
    site.keys["notify"] = {key: "${HOOK}"}
    done = call("run", site.path)
    assert (done.code, done.err.count(f"notify.{key}: ")) == (0, 1), done.err
    assert site.public().files()


def test_an_address_without_encryption_is_refused(site: TestSite) -> None:
    site.keys["notify"] = {"slack": "http://hooks.example/T0/B0"}
    done = call("validate", site.path)
    assert done.code == 2
    assert "notify.slack: expected an https:// address" in done.err
    assert "T0/B0" not in done.err


def settings(ear: Side, **keys: Any) -> Notify:
    found = Notify.model_validate({key: f"{ear.url}{path}" for key, path in keys.items()})
    return revealed("notify", found, {})


ALERT = Alert("shop", "https://shop.example", "failed", reason="a < b & c")


def test_a_message_is_retried_if_the_receiver_is_busy_but_not_if_it_refuses(ear: Side) -> None:
    slept: list[float] = []
    ear.faults = [Reply(503), RESET]
    assert alerts.send(settings(ear, webhook="/hook"), ALERT, sleep=slept.append) == []
    assert (len(ear.requests), slept) == (3, [0.0, 1.0, 4.0])
    ear.faults = [Reply(404)]
    (problem,) = alerts.send(settings(ear, webhook="/hook"), ALERT, sleep=slept.append)
    assert problem == "notify.webhook: the message was not sent: 127.0.0.1 answered 404"
    ear.faults = [Reply(500)] * 3
    (problem,) = alerts.send(settings(ear, slack="/x"), ALERT, sleep=slept.append)
    assert problem == "notify.slack: the message was not sent: 127.0.0.1 answered 500"
    assert len(ear.requests) == 3 + 1 + 3


def test_every_address_of_a_list_gets_the_message(ear: Side) -> None:
    found = Notify.model_validate({"webhook": [f"{ear.url}/a", f"{ear.url}/b"]})
    assert alerts.send(revealed("notify", found, {}), ALERT) == []
    assert [request.path for request in ear.requests] == ["/a", "/b"]


def test_slack_markup_in_a_message_is_escaped(ear: Side) -> None:
    alerts.send(settings(ear, slack="/s"), ALERT)
    assert "a &lt; b &amp; c" in json.loads(ear.requests[0].body)["text"]


@pytest.mark.parametrize(
    ("moment", "target"), [("start", "/p/u/start?rid=1"), ("success", "/p/u?rid=1"), ("fail", "/p/u/fail?rid=1")]
)
def test_a_monitors_address_keeps_its_query(ear: Side, moment: Any, target: str) -> None:
    assert alerts.beat(settings(ear, healthcheck="/p/u?rid=1"), moment, "words") == []
    assert [(request.target, request.body) for request in ear.requests] == [(target, b"words")]


def test_a_long_reason_is_cut() -> None:
    text = Alert("shop", "https://shop.example", "failed", reason="x" * 10_000).text()
    assert len(text) == 3_000
    assert text.endswith("…")


def test_the_command_names_its_own_site_file(site: TestSite, ear: Side) -> None:
    assert call("run", site.path).code == 0
    site.export("products", pages(10))
    assert call("run", site.path).code == 1
    (message,) = heard(ear, "/hook")
    assert message["look"] == f"sitemap-etl status {site.path}"
    assert f"sitemap-etl publish {site.path} " in message["reason"]


def test_commands_can_be_pasted_into_a_shell(site: TestSite, ear: Side) -> None:
    listed = [{"loc": f"/p?id={n}&lang=en", "lastmod": "2026-10-01"} for n in range(100)]
    site.export("products", listed)
    spaced = site.path.rename(site.folder / "our shop.yaml")
    assert call("run", spaced).code == 0
    site.export("products", listed[:10])
    refused = call("run", spaced)
    assert refused.code == 1
    look = next(line for line in refused.err.splitlines() if "look:" in line)
    words = shlex.split(look)[1:]
    assert words[:2] == ["sitemap-etl", "explain"]
    assert call(*words[1:]).code == 0
    (message,) = heard(ear, "/hook")
    assert shlex.split(message["look"])[2:] == [str(spaced)]


def test_messages_do_not_count_pages_that_views_repeat(site: TestSite) -> None:
    counts = Counts(listed=10, added=3, removed=2)
    sections, now = {"p": counts, "best": counts}, "2026-11-01T02:00:00Z"
    ended = Attempt("r", now, status="published", sections=sections, views=("best",))
    alert = alert_of(site.load(), ended, "shop.yaml")
    assert (alert.listed, alert.counts) == (10, {"added": 3, "changed": 0, "removed": 2})
    assert counts_of(ended)["total"]["listed"] == 10


def test_a_message_agrees_with_the_recorded_outcome_of_the_run(site: TestSite) -> None:
    del site.keys["notify"]
    site.night(1)
    found = alert_of(site.load(), past_runs(site.load(), site.environment)[0], "shop.yaml")
    assert found.text().splitlines()[:2] == ["shop (https://shop.example): published", "100 URLs (100 added)"]


def test_requests_carry_json_and_a_user_agent(site: TestSite, ear: Side) -> None:
    alerts.send(settings(ear, webhook="/hook"), ALERT)
    found: Request = ear.requests[0]
    assert found.method == "POST"
    assert found.headers["Content-Type"] == "application/json"
    assert found.headers["User-Agent"].startswith("sitemap_etl/")
