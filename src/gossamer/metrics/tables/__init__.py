"""Measures of tables: rows of codes in, an `Estimate` out. `registry` declares each metric once."""
