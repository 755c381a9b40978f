"""`gossamer reproduce`: tables of the papers, ours beside theirs. A table is TOML; a cell, a row with a seed, is JSON."""
