"""Planted mistakes: each is put into a copy of the source, and a named test must fail. `make mutants` runs all of them.

python tests/mutants.py            all, and a Markdown table
python tests/mutants.py noise      those whose name holds "noise"
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mistake:
    """One planted mistake.

    Args:
        name: what is wrong, in words.
        file: below src/gossamer.
        old: text that stands there exactly once.
        new: what replaces it.
        tests: pytest arguments; at least one test must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


MECHANISMS = "tests/privacy/test_mechanisms.py"
LEDGER = "tests/privacy/test_ledger.py"
CONFINED = "tests/privacy/test_confined.py"
CONFORMANCE = "tests/methods/test_conformance.py"
NOISE = "tests/privacy/test_noise.py"
GRADIENTS = "tests/privacy/test_gradients.py"
ROUNDING = "tests/privacy/test_rounding.py"
ROWS = "tests/privacy/test_rows.py"
GS_WGAN = "tests/methods/test_gs_wgan.py"
TERMWISE = "tests/privacy/test_termwise.py"

MISTAKES = (
    Mistake("no clipping", "privacy/clipping.py", "(norm / square.sqrt()).clamp(max=1)", "torch.ones_like(square)", MECHANISMS),
    Mistake("clipping to twice the bound", "privacy/clipping.py", "(norm / square.sqrt()).clamp(max=1)", "(2 * norm / square.sqrt()).clamp(max=1)", MECHANISMS),
    Mistake("a unit's records are clipped one by one", "privacy/gradients.py", "single, several = _by_unit(records) if clips(bounds) else (records, [])", "single, several = records, []", MECHANISMS),
    Mistake("a record that is not finite is multiplied by zero", "privacy/clipping.py", "dropped if bool(dropped.any()) else None)", "None)", f"{GRADIENTS} {MECHANISMS}"),
    Mistake("no guard against cancellation in Gram norms", "privacy/rounding.py", "return raised(squares, u, b, dtype, steps + u_gram.shape[1] + 1)", "return squares.clamp(min=0)", GRADIENTS),
    Mistake("the guard's error is a constant, however long the products are", "privacy/rounding.py", "(steps / 2 + FLOOR) * kind.eps * terms.square()", "16 * kind.eps * terms.square()", ROUNDING),
    Mistake("long products are summed in one piece", "privacy/rounding.py", "    first, *others = features.chunk(-(-features.shape[1] // PRODUCTS), dim=1)", "    first, *others = (features,)", ROUNDING),
    Mistake("what the weight-gradient call rounds is not in the norm", "privacy/rounding.py", "return (norm + 2 * (u.shape[1] + 1) * kind.eps * terms).square()", "return norm.square()", ROUNDING),
    Mistake("a record's terms may be as long as they like before they cancel", "privacy/rounding.py", "FLOOR = 32.0", "FLOOR = 0.0", ROUNDING),
    Mistake("no guard on gradients of rank one", "privacy/norms.py", "return square_norms(self.a) * square_norms(self.b)\n", "return self.a.square().sum(1) * self.b.square().sum(1)\n", ROUNDING),
    Mistake("squares that vanish are lost", "privacy/rounding.py", "return total + size * torch.finfo(rows.dtype).tiny", "return total", ROUNDING),
    Mistake("the rounding slack is not charged", "privacy/rounding.py", "return bound / (1 + SLACK * torch.finfo(dtype).eps)", "return bound", ROUNDING),
    Mistake("a pixel that no tap reads may be NaN", "privacy/norms.py", "return squares + unread(self.calls, self.shape, self.draws, lo, hi)", "return squares", "tests/privacy/test_tape_layers.py"),
    Mistake("TF32 is left on", "privacy/rounding.py", "place.fp32_precision = \"ieee\"", "pass", ROUNDING),
    Mistake("TF32 is off in norms, and on in sums", "privacy/clipping.py", "    for part in parts:\n        part.add_", "    for part in parts:\n        torch.set_float32_matmul_precision(\"medium\")\n        part.add_", ROUNDING),
    Mistake("constant planes: the norm forgets the constants", "privacy/norms.py", "return square_norms(self.a) * square_norms(self.b.flatten(1))", "return square_norms(self.b.flatten(1))", "tests/privacy/test_tape_layers.py"),
    Mistake("a convolution's kept gradients stay in the order of unfolding", "privacy/norms.py", "total = by_channels(total.view(len(out), -1), self.taps)", "pass", "tests/privacy/test_tape_layers.py"),
    Mistake("every phase of a strided layer reads the pixels of the first", "privacy/patches.py", "start = stride * first + phase", "start = stride * first", "tests/privacy/test_tape_layers.py"),
    Mistake("every group is clipped by the first group's factor", "privacy/clipping.py", "factors[groups[part.parameter]]", "factors[0]", MECHANISMS),
    Mistake("noise x 0.9", "privacy/mechanisms.py", "self.noise_multiplier * self.max_norm)", "0.9 * self.noise_multiplier * self.max_norm)", MECHANISMS),
    Mistake("noise forgets max_norm", "privacy/mechanisms.py", "self.noise_multiplier * self.max_norm)", "self.noise_multiplier)", MECHANISMS),
    Mistake("group sensitivity 1 instead of sqrt(k)", "privacy/mechanisms.py", "return len(self.bounds.norms) ** -0.5 if self.weights", "return 1.0 if self.weights", MECHANISMS),
    Mistake("every group has the first group's noise", "privacy/mechanisms.py", "self.bounds.norms[group] / self._weight(group)", "self.bounds.norms[0] / self._weight(group)", MECHANISMS),
    Mistake("weights that hide noise", "privacy/mechanisms.py", "sum(w * w for w in weights) > 1 + 1e-9", "sum(weights) > 1 + 1e-9", MECHANISMS),
    Mistake("a vote on the quantile is never scaled to its bound", "privacy/quantiles.py", "min(1.0, bounds.norms[0] / self.sensitivity)", "1.0", "tests/privacy/test_quantiles.py"),
    Mistake("the quantile divides by the drawn batch", "privacy/quantiles.py", "return votes.sum(0) *", "return votes.sum(0) / max(1, len(votes)) *", "tests/privacy/test_quantiles.py"),
    Mistake("the quantile is not charged", "methods/dp_wgan.py", "        releases.append((question,", "        ((question,", "tests/methods/test_dp_wgan.py"),
    Mistake("fakes of a record come from a public stream", "methods/dp_wgan.py", "query = PenaltyGradient(state.D, pairs_for(state.G, rng.secret_generator), PENALTY", "query = PenaltyGradient(state.D, pairs_for(state.G, lambda: rng.public(\"latents\")), PENALTY", CONFORMANCE),
    Mistake("2 C2 taken as C2", "privacy/termwise.py", "sensitivity = 2 * self.max_norm_batch", "sensitivity = self.max_norm_batch", TERMWISE),
    Mistake("each of two terms has the noise of one", "privacy/termwise.py", "first, second = self.weights or (0.5**0.5, 0.5**0.5)", "first, second = 1.0, 1.0", TERMWISE),
    Mistake("groups of a draw by position, not by coins", "privacy/termwise.py", "coins = self.rng.integers(drawn.population, self.partitions)", "coins = np.arange(drawn.population) * self.partitions // max(1, drawn.population)", TERMWISE),
    Mistake("a group's gradient is not clipped", "privacy/termwise.py", "clip_whole(query.group_gradient(members), self.max_norm_batch)", "query.group_gradient(members)", TERMWISE),
    Mistake("a group that is not finite is multiplied by zero", "privacy/rounding.py", "wide = torch.where(wide.isfinite().all(1, keepdim=True), wide, 0.0)", "wide = wide * wide.isfinite().all(1, keepdim=True)", TERMWISE),
    Mistake("two sums, division by the drawn batch", "privacy/termwise.py", "return torch.stack([samples, batches])", "return torch.stack([samples / max(1, drawn.population), batches])", TERMWISE),
    Mistake("a whole answer's noise is for C, not 2 C", "privacy/termwise.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * self.max_norm", TERMWISE),
    Mistake("the whole answer is not clipped", "privacy/termwise.py", "return clip_whole(query.whole(self._drawn(held)), self.max_norm)", "return query.whole(self._drawn(held))", f"{TERMWISE} tests/methods/test_privae.py"),
    Mistake("reparametrisation coins come from a public stream", "methods/privae.py", "generator=rng.secret_generator())", "generator=rng.public(\"coins\"))", "tests/methods/test_privae.py"),
    Mistake("the draws of a code add up", "methods/privae.py", "return (reconstruction + config.beta * divergence) / L", "return reconstruction + config.beta * divergence", "tests/methods/test_privae.py"),
    Mistake("the encoder is released unasked", "methods/privae.py", "        if not self.with_encoder:\n            net.encoder = None\n", "", "tests/methods/test_privae.py"),
    Mistake("a shuffled batch for Poisson sampling", "privacy/noise.py", "        return np.concatenate(drawn)", "        return np.sort(np.random.default_rng().permutation(population)[: round(population * rate)])", f"{MECHANISMS} {NOISE}"),
    Mistake("records are drawn more often than charged", "privacy/mechanisms.py", "self.rng.poisson_sample(held.population, self.sampling_rate)", "self.rng.poisson_sample(held.population, min(1.0, 1.1 * self.sampling_rate))", MECHANISMS),
    Mistake("division by the drawn batch", "privacy/mechanisms.py", "        return query.clipped_sum(self._drawn(held), Bounds(norms=(self.max_norm,)))", "        drawn = self._drawn(held)\n        return query.clipped_sum(drawn, Bounds(norms=(self.max_norm,))) / max(1, drawn.population)", MECHANISMS),
    Mistake("an empty draw is skipped", "privacy/mechanisms.py", "        if self.noise_multiplier > 0:\n            self.rng", "        if self.noise_multiplier > 0 and bool(total.any()):\n            self.rng", MECHANISMS),
    Mistake("charge after read", "privacy/confined.py", "        self.__ledger.charge(mechanism.event)\n        return _inside(lambda: mechanism(self.__held, query)).detach()", "        out = _inside(lambda: mechanism(self.__held, query)).detach()\n        self.__ledger.charge(mechanism.event)\n        return out", CONFINED),
    Mistake("no charge", "privacy/confined.py", "        self.__ledger.charge(mechanism.event)\n", "", f"{CONFINED} {CONFORMANCE}::test_spends_its_plan"),
    Mistake("a failing query shows its message", "privacy/confined.py", "        return compute()\n    except GossamerError:", "        return compute()\n    except (GossamerError, ValueError):", CONFINED),
    Mistake("a Confined value can be pickled", "privacy/confined.py", "    def __reduce_ex__(self, protocol: object) -> NoReturn:", "    def _reduce_ex(self, protocol: object) -> NoReturn:", CONFINED),
    Mistake("a fixed noise seed passes for private", "privacy/confined.py", "if mechanism.rng.reproducible and", "if False and", CONFINED),
    Mistake("declassify keeps the finite epsilon", "privacy/ledger.py", "        self.reasons.append(reason)\n", "", f"{LEDGER} {CONFINED}"),
    Mistake("the plan may exceed the budget", "privacy/ledger.py", "            if cost.epsilon > self.budget:", "            if cost.epsilon > 2 * self.budget and False:", LEDGER),
    Mistake("each plan is held against the budget alone", "privacy/ledger.py", "total = merge([*self.plan, *plan])", "total = merge(plan)", LEDGER),
    Mistake("more releases than reserved", "privacy/ledger.py", "            if block <= 0:", "            if block <= -BLOCK:", LEDGER),
    Mistake("charges stay in memory until the block is used up", "privacy/ledger.py", "            self._file.flush()\n            os.fsync(self._file.fileno())", "            pass", LEDGER),
    Mistake("a resume takes back what was written ahead", "privacy/ledger.py", "            self._charged[number] += 1\n        elif", "            self._charged[number] += 1\n            self._prepaid[number] = min(self._prepaid[number] + 1, 12)\n        elif", LEDGER),
    Mistake("a torn line counts as nothing", "privacy/ledger.py", "        if torn:\n            for number", "        if False:\n            for number", LEDGER),
    Mistake("the hash chain is not looked at", "privacy/ledger.py", "    if stated != expected:", "    if False:", LEDGER),
    Mistake("the hash does not cover the line before", "privacy/ledger.py", "hashlib.sha256((last_hash + json", "hashlib.sha256((json", LEDGER),
    Mistake("two processes write one ledger", "privacy/ledger.py", "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "        pass", LEDGER),
    Mistake("the certificate states what is spent, not what is reserved", "privacy/certificate.py", "found = accounting.bounds(merge(ledger.plan)", "found = accounting.bounds([(e, max(1, n)) for (e, _), n in zip(ledger.plan, ledger.used, strict=True)]", "tests/privacy/test_certificate.py"),
    Mistake("verify does not see a cut tail", "privacy/certificate.py", "    if (certificate[\"ledger\"][\"lines\"], certificate[\"ledger\"][\"last_hash\"]) != (ledger.lines, ledger.last_hash):", "    if False:", "tests/privacy/test_certificate.py"),
    Mistake("verify does not see an edited certificate", "privacy/certificate.py", "        if _digest(line) != digest:", "        if False:", "tests/privacy/test_certificate.py"),
    Mistake("verify does not look at the model", "privacy/certificate.py", "        if certificate[\"model\"][\"sha256\"] != sha256(folder / MODEL):", "        if False:", "tests/privacy/test_certificate.py"),
    Mistake("the noise comes from the public seed", "privacy/noise.py", "_Keystream(_fixed_key(noise_seed, purpose))", "_Keystream(_fixed_key(seed, purpose))", f"{NOISE} {CONFORMANCE}"),
    Mistake("a checkpoint holds the position of the noise", "privacy/noise.py", "        if self.reproducible:\n            state", "        if True:\n            state", NOISE),
    Mistake("a printed bound is rounded down", "privacy/guarantee.py", "math.ceil(round(epsilon * scale, 6))", "math.floor(round(epsilon * scale, 6))", "tests/privacy/test_guarantee.py"),
    Mistake("delta of 1/N is accepted", "run/budget.py", "    if delta >= 1 / card.declared_size:", "    if False:", "tests/run/test_budget.py"),
    Mistake("a cheaper promise than asked is passed over", "run/budget.py", "<= cost <= epsilon:", "<= cost:", "tests/run/test_budget.py"),
    Mistake("the loss on records is logged", "methods/dpgan.py", "        g = private.release(mechanism, on_records)", "        private.update(lambda held: emit(Event(\"step\", state.step, {\"loss\": float(adversarial.loss_on_records(state.D, held).detach().mean())})))\n        g = private.release(mechanism, on_records)", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the real batch's labels go to the fakes", "methods/dpgan.py", "        fakes = state.fakes(B, card, rng)  # l. 5", "        shown: list[Any] = []\n        private.update(lambda held: shown.append(torch.from_numpy(held.labels[:B])))\n        fakes = Fakes(state.fakes(len(shown[0]), card, rng).images, shown[0])", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the number of fakes is the number of records", "methods/dpgan.py", "        fakes = state.fakes(B, card, rng)  # l. 5", "        sizes: list[int] = []\n        private.update(lambda held: sizes.append(len(held) // 10))\n        fakes = state.fakes(sizes[0], card, rng)", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the plan forgets a factor in the rate", "methods/dpgan.py", "    rate = config.expected_batch_size / card.declared_size\n", "    rate = 0.5 * config.expected_batch_size / card.declared_size\n", f"{CONFORMANCE}::test_spends_its_plan"),
    Mistake("a checkpoint ahead of the ledger is accepted", "run/checkpoint.py", "    if ledger.lines < saved[\"ledger_lines\"]:", "    if False:", "tests/run/test_resume.py"),
    Mistake("checkpoints can be read by everyone", "run/checkpoint.py", "private=True", "private=False", "tests/run/test_resume.py"),
    Mistake("a resume goes on with other records", "run/fit.py", "        if found.fingerprint != source_json[\"fingerprint\"]:", "        if False:", "tests/run/test_resume.py"),
    Mistake("a release copies the internal figures", "run/verify.py", "    for name in RELEASED:", "    for name in (*RELEASED, *(n for n in (\"metrics.json\",) if folder.file(n).exists())):", "tests/run/test_cli.py"),
    Mistake("the released settings name the private data", "run/fit.py", "        \"seed\": seed,\n", "        \"seed\": seed,\n        \"data\": sources.data,\n", "tests/run/test_cli.py"),
    Mistake("rows are not clipped", "privacy/rounding.py", "BELOW * max_norm / norm, 1.0)", "1.0, 1.0)", ROWS),
    Mistake("rows are noised against C instead of 2C", "privacy/rows.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * self.max_norm", ROWS),
    Mistake("B rows are charged as one", "privacy/rows.py", "joint = noise_multiplier / math.sqrt(batch_size)", "joint = noise_multiplier", ROWS),
    Mistake("a critic is drawn by a public stream", "privacy/rows.py", "return int(self.rng.integers(1, self.critics)[0])", "return int(__import__(\"torch\").randint(self.critics, (1,), generator=self.rng.public(\"draw\"))) % max(1, self.critics - 1)", ROWS),
    Mistake("the draw depends on which critic trained", "methods/gs_wgan.py", "        query = Answers(", "        mechanism._coin = lambda: chosen[0]\n        query = Answers(", f"{GS_WGAN}::test_in_the_secret_draw_training_does_not_look_at_the_draw"),
    Mistake("the critic that trains is the one that answered", "methods/gs_wgan.py", "critics.update(Visit(chosen, x.detach(), y, rng))", "critics.update(Visit([mechanism._coin()], x.detach(), y, rng))", f"{GS_WGAN}::test_in_the_secret_draw_training_does_not_look_at_the_draw"),
    Mistake("the plan forgets that a step asks several critics", "methods/gs_wgan.py", "steps=config.steps * config.answers, **", "steps=config.steps, **", GS_WGAN),
    Mistake("all answers of a call share one draw", "privacy/rows.py", "[self._answering(held) for _ in range(self.answers)]", "[self._answering(held)] * self.answers", ROWS),
    Mistake("a call of several answers is charged as one", "privacy/rows.py", "ComposedDpEvent(each) if len(each) > 1 else each[0]", "each[0]", ROWS),
    Mistake("the ledger charges one part of a composed event", "privacy/ledger.py", "for part in event.events:", "for part in event.events[:1]:", ROWS),
    Mistake("every answer of the round robin is free", "privacy/rows.py", "return NoOpDpEvent() if within_a_pass else self.paid", "return NoOpDpEvent() if self.draw == \"round_robin\" else self.paid", ROWS),
    Mistake("a pass goes on after a crash", "privacy/rows.py", "given = passes * self.critics - ((self.critics - self._position) if self._position else 0)", "given = max(0, passes * self.critics - (self.critics - self._position))", ROWS),
    Mistake("answering writes the power iteration", "methods/critics.py", "        net = self.layout.network(self.weights[which].to(images.dtype), self.directions[which].to(images.dtype))", "        self.directions[which] = self.layout.iterate(self.weights[which].float(), self.directions[which])\n        net = self.layout.network(self.weights[which].to(images.dtype), self.directions[which].to(images.dtype))", f"{GS_WGAN}::test_answering_is_read_only"),
    Mistake("all critics share one stream, which their shards move", "methods/critics.py", "[torch.rand(turns, 3, M, generator=each, dtype=torch.float64) for each in coins]", "[(torch.rand(int(self.sizes[c]), generator=coins[0]), torch.rand(turns, 3, M, generator=coins[0], dtype=torch.float64))[1] for c in chosen]", f"{GS_WGAN}::test_a_changed_shard_moves_no_other_critic"),
    Mistake("one critic's norm divides the answers of its whole stack", "methods/stacked.py", "matrix / norm[:, None, None]", "matrix / norm.max()", f"{GS_WGAN}::test_an_adversarial_critic_moves_no_other_answer_of_its_call"),
    Mistake("an empty shard is left out of its stack", "methods/critics.py", "        which = torch.as_tensor(chosen)\n        holds", "        kept_in = [i for i, c in enumerate(chosen) if self.sizes[c]]\n        if not kept_in:\n            return\n        chosen, coins, fakes = [chosen[i] for i in kept_in], [coins[i] for i in kept_in], fakes[kept_in]\n        which = torch.as_tensor(chosen)\n        holds", f"{GS_WGAN}::test_a_changed_shard_moves_no_other_critic"),
    Mistake("shards are redrawn at a resume", "methods/critics.py", "self._deal(saved[\"shards\"].numpy().copy())", "pass", f"{GS_WGAN}::test_shards_are_drawn_by_independent_coins_once_and_kept"),
    Mistake("shards of equal size", "methods/gs_wgan.py", "rng.integers(units, config.critics) if sealed", "np.arange(units) % config.critics if sealed", f"{GS_WGAN}::test_shards_are_drawn_by_independent_coins_once_and_kept"),
    Mistake("the revealed draw is charged like a secret one", "privacy/rows.py", "else RevealedDrawGaussianDpEvent(critics, joint)", "else SampledWithoutReplacementDpEvent(critics, 1, GaussianDpEvent(joint))", ROWS),
    Mistake("the mixture forgets the busiest critics", "privacy/revealed.py", "int(law.isf(cut / 4))", "int(law.mean()) + 1", "tests/privacy/test_revealed.py"),
    Mistake("sealed critics can be read by everyone", "privacy/confined.py", "os.O_EXCL, 0o600)", "os.O_EXCL, 0o644)", f"{GS_WGAN}::test_a_sealed_file_is_private_complete_and_the_only_one"),
    Mistake("the wrong class may be the own", "methods/privgan.py", "torch.randint(1, config.pairs,", "torch.randint(0, config.pairs,", "tests/methods/test_privgan.py"),
    Mistake("privgan counts the records before it declassifies them", "methods/privgan.py", "    records = private.declassify(reason=REASON)\n", "    counted: list[int] = []\n    private.update(lambda held: counted.append(len(held)))\n    records = private.declassify(reason=REASON)\n", f"tests/methods/test_privgan.py {CONFORMANCE}"),
    Mistake("privgan reserves nothing", "methods/privgan.py", "    return [(NonPrivateDpEvent(), 1)]", "    return []", f"tests/methods/test_privgan.py {CONFORMANCE}"),
    Mistake("the privacy discriminator is released", "methods/privgan.py", "for G in list(model.generators)[:count]]", "for G in [*list(model.generators)[:count], model.adversary.net]]", "tests/methods/test_privgan.py"),
    Mistake("the parts of privgan are not random", "methods/privgan.py", "np.array_split(order, config.pairs)", "np.array_split(np.sort(order), config.pairs)", "tests/methods/test_privgan.py"),
    Mistake("the privacy discriminator does not rest", "methods/privgan.py", "epoch >= config.adversary_delay_epochs", "epoch >= 0", "tests/methods/test_privgan.py"),
    Mistake("privgan takes a budget", "run/budget.py", "    if epsilon is not None or delta is not None:\n        named", "    if False:\n        named", "tests/methods/test_privgan.py"),
    Mistake("the accused are also held out", "run/attack.py", "outside[order[half : half + HELD_OUT]]", "outside[order[:HELD_OUT]]", "tests/run/test_attack.py"),
    Mistake("members may be attacked as non-members", "run/attack.py", "        if fingerprint(outside) == trained_on:", "        if False:", "tests/run/test_attack.py"),
)  # fmt: skip


def plant(mistake: Mistake, folder: Path) -> Path:
    """A copy of the source with the mistake in it."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    path = source / "gossamer" / mistake.file
    text = path.read_text()
    if text.count(mistake.old) != 1:
        raise SystemExit(
            f"{mistake.name!r}: the text to replace stands {text.count(mistake.old)} times in {mistake.file}"
        )
    path.write_text(text.replace(mistake.old, mistake.new))
    return source


def caught(mistake: Mistake) -> tuple[bool, str]:
    """Whether a test fails, and which; a mistake that breaks the collection does not count as caught."""
    with tempfile.TemporaryDirectory() as folder:
        source = plant(mistake, Path(folder))
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=no",
            "-rf",
            *mistake.tests.split(),
        ]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [
        line.removeprefix("FAILED ").split(" - ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED ")
    ]
    return done.returncode == 1 and bool(failed), failed[0] if failed else done.stdout.strip().splitlines()[-1]


def main() -> None:
    """Plant them all and print the table; exit status 1 if one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only mistakes whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [mistake for mistake in MISTAKES if arguments.pattern in mistake.name]
    print("| planted mistake | in | caught by |\n|---|---|---|", flush=True)
    missed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mistake, (found, by) in zip(chosen, pool.map(caught, chosen), strict=True):
            missed += not found
            print(
                f"| {mistake.name} | `{mistake.file}` | {f'`{by}`' if found else f'**nothing** ({by})'} |", flush=True
            )
    print(f"\n{len(chosen) - missed} of {len(chosen)} caught")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
