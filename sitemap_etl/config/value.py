"""What all parts of a site are."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Frozen, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
