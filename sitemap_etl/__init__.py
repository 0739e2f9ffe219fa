"""Catalogue in, sitemaps out: extract, transform, partition, render, publish, ping."""

__version__ = "0.1.0"
