"""The tables of docs/results, a module for each area; benchmarks/tables.py prints them."""
