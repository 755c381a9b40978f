"""SDMetrics 0.32.0: its scores for the shapes of columns and for the trends of pairs.

It has an environment of its own: Python 3.11, `pip install sdmetrics==0.32.0`.

    PYTHON benchmarks/tables/peers/with_sdmetrics.py TASK.npz

TASK.npz has `real` and `made`, float64 [n, columns], and `is_category`, bool [columns].
"""

import sys

import numpy as np
import pandas as pd
from sdmetrics.reports.single_table import QualityReport


def frame(values: np.ndarray, is_category: np.ndarray) -> pd.DataFrame:
    """Numbers as they are, categories as texts."""
    columns = zip(values.T, is_category, strict=True)
    return pd.DataFrame({f"c{at}": own.astype(str) if category else own for at, (own, category) in enumerate(columns)})


if __name__ == "__main__":
    with np.load(sys.argv[1]) as task:
        is_category = task["is_category"]
        real, made = (frame(task[name], is_category) for name in ("real", "made"))
    kinds = [{"sdtype": "categorical" if category else "numerical"} for category in is_category]
    report = QualityReport()
    report.generate(real, made, {"columns": dict(zip(real.columns, kinds, strict=True))}, verbose=False)
    print(*report.get_properties()["Score"])
