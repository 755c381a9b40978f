"""Run the tables of the papers again, and print our figures beside theirs: `python -m benchmarks.reproduce`.

A table is a TOML file in `tables/`. A cell is one row with one seed; its result is a JSON file in `cells/`.
"""
