"""AIM and MST of dpmm 0.1.9, in an environment of its own: Python 3.11, `pip install dpmm==0.1.9`."""

import time
from typing import Any

import numpy as np
import pandas as pd
from common import Task, run
from dpmm.models.aim import AIM
from dpmm.pipelines import AIMPipeline, MSTPipeline

PIPELINES = {"aim": AIMPipeline, "mst": MSTPipeline}
PIPELINE_SETTINGS = ("max_model_size", "compress")


def samples(task: Task) -> np.ndarray:
    """Codes of a pipeline that is given every list of values, so that its own binning has no number to bin."""
    names = [f"c{column}" for column in range(len(task.domain))]
    values = {name: [str(code) for code in range(size)] for name, size in zip(names, task.domain, strict=True)}
    frame = pd.DataFrame(
        {name: pd.Categorical.from_codes(task.codes[:, k], categories=values[name]) for k, name in enumerate(names)}
    )
    own: dict[str, Any] = {name: task.settings[name] for name in task.settings if name in PIPELINE_SETTINGS}
    others = {name: value for name, value in task.settings.items() if name not in PIPELINE_SETTINGS}
    pipeline = PIPELINES[task.method](epsilon=task.epsilon, delta=task.delta, n_jobs=1, gen_kwargs=others, **own)
    pipeline.fit(
        frame,
        domain={name: {"categories": values[name]} for name in names},
        random_state=np.random.RandomState(task.seed),
    )
    made = pipeline.generate(len(frame), random_state=np.random.RandomState(task.seed + 1))
    return np.stack([made[name].astype(str).astype(int).to_numpy() for name in names], axis=1)


def print_rounds() -> None:
    """Print a line for each round of AIM, so that a run that is stopped shows how far it got."""
    choose = AIM.worst_approximated

    def printed(
        self: AIM, candidates: Any, answers: Any, model: Any, eps: float, sigma: float, public: bool = False
    ) -> Any:
        chosen = choose(self, candidates, answers, model, eps, sigma, public)
        print(f"cpu {time.process_time():.0f}: sigma {sigma:.0f}, {chosen}, model {model.size} cells", flush=True)
        return chosen

    AIM.worst_approximated = printed


if __name__ == "__main__":
    print_rounds()
    run(samples)
