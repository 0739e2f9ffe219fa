"""Lakehouse tables.

lake, lake_table   tables as sources; the interface of one version
delta, iceberg     the formats
rowwise            SELECTs that treat each row separately
"""
