"""Alerts through Airflow's notifiers, such as Slack, mail and pagers."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, BaseNotifier

from sitemap_etl.errors import ConfigError, Refused

if TYPE_CHECKING:
    from sitemap_etl.alerts import Alert
    from sitemap_etl.stages.run import Announce

_TEXT: Final = "{{ sitemap.text }}"
_HTML: Final = "<pre>{{ sitemap.text | e }}</pre>"
_TITLE: Final = "{{ sitemap.title }}"
_FILLED: Final = {"text": _TEXT, "message": _TEXT, "html_content": _HTML, "subject": _TITLE}
"""Common names of message arguments → templates. The alert itself is data, so its text is never rendered."""


def announcing(context: Mapping[str, Any]) -> Announce:
    """Return a function that has a notifier send a message. `context`: that of the callback."""
    # `airflow dags test` calls callbacks with the DAG as it is stored, which renders no templates.
    known = {name: value for name, value in context.items() if name != "dag" or isinstance(value, DAG)}

    def announce(path: str, arguments: Mapping[str, Any], alert: Alert) -> None:
        make = _class_of(path)
        takes = inspect.signature(make).parameters
        filled = {name: text for name, text in _FILLED.items() if name in takes} | dict(arguments)
        try:
            notifier = make(**filled)
        except TypeError as error:
            raise ConfigError(f"{path}: {error}") from None
        try:
            notifier({**known, "sitemap": alert.to_json()})
        except Exception as error:  # noqa: BLE001 - whatever it raises; its words may hold a secret
            raise Refused(f"{path} raised {type(error).__name__}") from None

    return announce


def _class_of(path: str) -> type[BaseNotifier]:
    try:
        found = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path} can't be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise ConfigError(f"{path} is not a notifier of Airflow")
    return found
