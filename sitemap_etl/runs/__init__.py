"""Entry points of commands and schedulers: whole runs, rollback, status, verify, forget and validate."""
