"""MST, AIM and DP-CTGAN of smartnoise-synth 1.0.8. It has an environment of its own.

Python 3.11, `pip install torch==2.13.0 packaging smartnoise-synth==1.0.8`. Where a CUDA build of torch would come, install the
CPU build of torch first.
"""

from typing import Any

import numpy as np
import pandas as pd
from common import Task, run
from snsynth import Synthesizer

OWN: dict[str, dict[str, Any]] = {"mst": {}, "aim": {"verbose": True}, "dpctgan": {"verbose": True}}
"""Settings that print how far a run is."""


def samples(task: Task) -> np.ndarray:
    """Codes of a synthesizer that is told that all columns are categories, and spends nothing on preparing them."""
    names = [f"c{column}" for column in range(len(task.domain))]
    frame = pd.DataFrame(task.codes, columns=names).astype(str)
    settings = {**OWN[task.method], **task.settings}
    synthesizer = Synthesizer.create(task.method, epsilon=task.epsilon, delta=task.delta, **settings)
    np.random.seed(task.seed)
    synthesizer.fit(frame, categorical_columns=names, preprocessor_eps=0.0)
    return synthesizer.sample(len(frame))[names].astype(int).to_numpy()


if __name__ == "__main__":
    run(samples)
