"""Fixtures that every test may ask for."""

pytest_plugins = ["tests.support.fixtures", "tests.support.postgres"]
