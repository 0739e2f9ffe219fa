"""The stages of a run, as functions: plan, extract, merge, transform, decide, partition, align, render, ping."""
