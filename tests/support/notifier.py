"""A notifier for Airflow that writes its messages to a file, one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class FileNotifier(BaseNotifier):
    template_fields: Sequence[str] = ("message", "channel")

    def __init__(self, path: str, channel: str = "", message: str = "", *, broken: bool = False) -> None:
        super().__init__()
        self.path, self.channel, self.message, self.broken = path, channel, message, broken

    def notify(self, context: Any) -> None:
        if self.broken:
            raise RuntimeError("the token s3cret-token was refused")
        said = {"message": self.message, "channel": self.channel, "report": context["sitemap"]["report"]}
        with Path(self.path).open("a") as file:
            file.write(json.dumps(said) + "\n")
