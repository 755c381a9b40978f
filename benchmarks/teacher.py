"""How well the teacher classifies records that it never saw: the last part of the training records is set apart for that.

The accuracies are computed on real records. They are for research, and no guarantee covers them; nor does one cover the choice
of settings by looking at them.

    python benchmarks/teacher.py --data ../shared/data/mnist --epsilons 1 10 --apart 10000
    python benchmarks/teacher.py --data ../shared/data/mnist --epsilons 1 --steps 117 234 --learning-rate 4 8
"""

import argparse
import itertools
import time
from typing import Any

import torch

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.sources.pictures.read import read
from gossamer.intervals import proportion
from gossamer.methods.common.softmax_regression import Classifier, with_features
from gossamer.methods.teacher import Config
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.memory import tune_malloc
from gossamer.run.training.plan import Request, plan


def trained(request: Request, described: Records, seed: int) -> Classifier:
    """The classifier that a run would release; the noise is fresh."""
    job = request.job
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(seed))
    for _ in training.drive(Confined(described, ledger, training.run.rng)):
        pass
    net = training.state.released
    assert isinstance(net, Classifier)
    return net


def right(net: Classifier, described: Records) -> int:
    """How many records the classifier gives their own label."""
    with torch.no_grad():
        said = net.head(torch.from_numpy(described.images).float()).argmax(1)
    return int((said == torch.from_numpy(described.labels)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="as `gossamer fit --data`")
    parser.add_argument("--apart", type=int, default=10_000, help="records at the end that are only asked afterwards")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, nargs="+", default=[None])
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[None])
    parser.add_argument("--max-norm", type=float)
    parser.add_argument("--expected-batch-size", type=int)
    parser.add_argument("--momentum", type=float)
    parser.add_argument("--bands", type=int, nargs="+", default=[None])
    parser.add_argument("--records", type=int, help="the last so many that are not apart; default: all")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tune_malloc()

    records = read(options.data, split="train")
    records = records[-(options.records + options.apart) :] if options.records else records
    count = len(records) - options.apart
    card = DataCard(shape=records.shape, classes=int(records.labels.max()) + 1, declared_size=count)
    begun = time.perf_counter()
    held = with_features(Classifier(card.shape, card.classes), records)
    print(f"features of {len(records):,} records: {time.perf_counter() - begun:.0f} s, {options.threads} threads\n")
    print("| epsilon | bands | noise multiplier | steps | learning rate | seed | set apart | trained on | seconds |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for epsilon in options.epsilons:
        for steps in options.steps:
            for rate, bands in itertools.product(options.learning_rate, options.bands):
                settings: dict[str, Any] = {
                    "steps": steps, "learning_rate": rate, "max_norm": options.max_norm, "momentum": options.momentum,
                    "expected_batch_size": options.expected_batch_size, "bands": bands,
                }  # fmt: skip
                request = plan("teacher", card, settings, epsilon=epsilon, delta=options.delta)
                for seed in range(options.seeds):
                    begun = time.perf_counter()
                    net = trained(request, held[:count], seed)
                    seconds = time.perf_counter() - begun
                    apart = proportion(right(net, held[count:]), options.apart, "set apart")
                    own = right(net, held[:count]) / count
                    given = request.job.settings
                    noise, taken = given["noise_multiplier"], given["steps"]
                    used = Config(**given).step_size(card)
                    row = f"| {epsilon:g} | {given['bands']} | {noise:.4f} | {taken} | {used:.3g} | {seed} |"
                    shares = f" {apart.value:.2%} ({apart.low:.2%} to {apart.high:.2%}) | {own:.2%} | {seconds:.0f} |"
                    print(row + shares, flush=True)


if __name__ == "__main__":
    main()
