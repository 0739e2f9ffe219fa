"""Hooks for the simulated runs: `transform:` of a site file."""

from __future__ import annotations

import pandas as pd


def without_drafts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[~frame["live"].fillna("").eq("draft")]


def shouted(frame: pd.DataFrame) -> pd.DataFrame:
    frame["title"] = frame["title"].str.upper()
    return frame
