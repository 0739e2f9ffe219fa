"""Messages about runs to people and monitors: the keys below `notify`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sitemap_etl.settings.engines import is_secure
from sitemap_etl.settings.kinds import OneOrMore, Settings, Several, Text, matching, once, wrong
from sitemap_etl.settings.secret import Form, Parameter, Secretive, SecretText

Event = Literal["failed", "refused", "partial", "late", "interrupted", "published", "unchanged"]


def _hook(text: str) -> None:
    """Raise if the address is not secure. An address with variables is checked later, when it is read."""
    if "${" not in text and not is_secure(text):
        raise wrong("expected an https:// address, because whoever knows it can send messages to it")


Hook = Annotated[SecretText, Form(_hook)]


class Notifier(Settings):
    """An Airflow notifier, by its class."""

    class_: Annotated[
        Text, matching(r"\w+(\.\w+)+", "a class with its module, such as airflow.providers.….Notifier")
    ] = Field(
        alias="class",
        description="The class, with its module.",
        examples=["airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier"],
    )
    args: dict[Text, Parameter] = Field(
        default_factory=dict,
        description="What the class takes. In texts that it renders, `sitemap` is the message: `{{ sitemap.text }}`.",
        examples=["{slack_webhook_conn_id: slack}"],
    )


class Notify(Secretive):
    """Recipients of messages about a run, one message each. A message that can't be sent is a warning in the log."""

    on: Annotated[Several[Event], AfterValidator(once)] = Field(
        default=("failed", "refused", "partial", "late"),
        description="The outcomes that `webhook`, `slack` and `airflow` are sent.",
    )
    webhook: OneOrMore[Hook] | None = Field(
        default=None,
        description="Address, or a list of addresses, that a message is sent to as JSON (POST).",
        examples=["${ALERT_WEBHOOK}"],
    )
    slack: OneOrMore[Hook] | None = Field(
        default=None,
        description="Incoming webhook, or a list of them, of Slack, or of a service that takes the same form, such as "
        "Mattermost and Discord (with `/slack`).",
        examples=["${SLACK_WEBHOOK}"],
    )
    healthcheck: Hook | None = Field(
        default=None,
        description="Address of a monitor for scheduled jobs. `/start` is added when a run starts and `/fail` if it "
        "did not end well; the plain address means success.",
        examples=["${HEALTHCHECK_URL}"],
    )
    airflow: dict[Text, Notifier] = Field(
        default_factory=dict,
        description="Notifiers of Airflow, each under a name of your own. Only runs of the DAG use them.",
        examples=["{slack: {class: …, args: {…}}}"],
    )

    def hears(self, event: Event) -> bool:
        """Return True if anybody gets a message about such an outcome."""
        return event in self.on and bool(self.webhook or self.slack or self.airflow)

    @property
    def silent(self) -> bool:
        """True if no recipient is set."""
        return not self.airflow and self.webhook is None and self.slack is None and self.healthcheck is None
