"""Exports: files in folders and buckets, in CSV, JSON lines and Parquet, and SQL over them.

files, s3, partitions, tables          finding and opening files; objects in S3; columns of folder names; table folders
completeness, manifests, unsteady      whole or not yet; lists of files; files that change
file_columns, formats, recognition     columns of each file; files of another format; the kind of a source
csv_files, csv_header, quotes, escapes, text            CSV, and its text
jsonl_files, json_types, json_bounds                    JSON lines
parquet_files, parquet_footers, int96                   Parquet
query                                  SQL over exports
bounds, object_sums, unverified        limits; checksums of S3; wrong checksums
"""
