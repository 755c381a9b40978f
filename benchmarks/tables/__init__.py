"""`marginals` on tables, beside other packages: gradient boosting trained on samples, and distances of marginals."""
