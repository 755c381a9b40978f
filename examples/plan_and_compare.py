"""What would an epsilon cost? Plans of several methods beside each other: `python examples/plan_and_compare.py`.

No record is read.
"""

import gossamer

card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)

print(f"{'method':10} {'epsilon':>8} {'noise multiplier':>17}  accountants")
for method in ("moments", "evolve", "dpgan"):
    for epsilon in (1.0, 10.0):
        request = gossamer.plan(method, card, epsilon=epsilon, delta=1e-5)
        noise = request.job.config.noise_multiplier
        bounds = ", ".join(f"{bound.accountant} {bound.guarantee.epsilon:.3f}" for bound in request.bounds)
        print(f"{method:10} {request.promise.epsilon:8.3f} {noise:17.3f}  {bounds}")

# The other way round: what settings of one's own cost. Here a fifth of the steps with half of the noise.
for settings in ({"noise_multiplier": 1.0, "steps": 10_000}, {"noise_multiplier": 0.5, "steps": 2_000}):
    print(settings, "costs", gossamer.plan("dpgan", card, settings, delta=1e-5).promise)
