"""One SELECT of a database, read whole or in key ranges.

database, session     reading a SELECT; session settings, time limits and cancellation
ranges, keys, losses  bounds of splits; the split column; warnings about rows that splits can lose
snapshots             one snapshot for all splits of a process
catalog               tables with estimated row counts and indexed columns
watermark             comparisons with the time in a SELECT that reads changes
adbc, adbc_drivers, alchemy             shared code of ADBC drivers; other drivers
postgres, postgres_types, sqlite, duckdb_file, mysql, mysql_packets, mysql_values  the kinds
"""
