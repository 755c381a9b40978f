"""AIM, AIM-GDP, SWIFT and MST of dpsynth (google/dpsynth at cf8075f), in an environment of its own.

Python 3.12, `pip install mbi==2.0.0 "jax[cpu]==0.12" dp-accounting absl-py attrs pandas "pydantic>=2" pyyaml more-itertools
networkx scipy tqdm "etils[epath]"`, and `pip install --no-deps` on a copy of the source. dpsynth, and the jax and mbi that it
pins, are not on PyPI.
"""

import logging
import time
from dataclasses import replace
from typing import Any

import mbi
import numpy as np
from absl import logging as absl_logging
from common import Task, run
from dpsynth.discrete_mechanisms import AIMConfig, AIMGDPConfig, DiscreteConfig, MSTConfig, SWIFTConfig

METHODS: dict[str, Any] = {"aim": AIMConfig, "aim-gdp": AIMGDPConfig, "mst": MSTConfig, "swift": SWIFTConfig}


def samples(task: Task) -> np.ndarray:
    """One-way counts, compression of rare values, then the method: as its command line puts them together."""
    names = [f"c{column}" for column in range(len(task.domain))]
    config = DiscreteConfig(replace(METHODS[task.method](), **task.settings), compress_columns=True)
    data = mbi.Dataset({name: task.codes[:, k] for k, name in enumerate(names)}, mbi.Domain(names, task.domain))
    made = config.calibrate(epsilon=task.epsilon, delta=task.delta)(
        np.random.default_rng(task.seed), data
    ).synthetic_data
    columns = made.to_dict()
    return np.stack([np.asarray(columns[name]) for name in names], axis=1)


def print_rounds() -> None:
    """Print what dpsynth logs, with CPU seconds, so that a run that is stopped shows how far it got."""
    absl_logging.set_verbosity(absl_logging.INFO)

    def emit(record: logging.LogRecord) -> bool:
        print(f"cpu {time.process_time():.0f}: {record.getMessage()}", flush=True)
        return False

    absl_logging.get_absl_handler().addFilter(emit)


if __name__ == "__main__":
    print_rounds()
    run(samples)
