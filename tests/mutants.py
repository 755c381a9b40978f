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
DIFFUSION = "tests/methods/test_dp_diffusion.py"
MOMENTS = "tests/methods/test_class_moments.py"
MIXTURE = "tests/methods/test_mixture.py"
LEDGER = "tests/privacy/test_ledger.py"
CONFINED = "tests/privacy/test_confined.py"
CONFORMANCE = "tests/methods/test_conformance.py"
VOTES, EVOLVE = "tests/methods/test_votes.py", "tests/methods/test_evolve.py"
NOISE = "tests/privacy/test_noise.py"
GRADIENTS = "tests/privacy/test_gradients.py"
ROUNDING = "tests/privacy/test_rounding.py"
ROWS = "tests/privacy/test_rows.py"
GS_WGAN = "tests/methods/test_gs_wgan.py"
SECRET_DRAW = "tests/privacy/test_secret_draw.py"
TERMWISE = "tests/privacy/test_termwise.py"
ACCOUNTING = "tests/privacy/test_accounting.py"
DPGAN = "tests/methods/test_dpgan.py"
METHOD = "tests/methods/test_method.py"
PARTS = "tests/methods/test_parts.py"
SOURCES = "tests/run/test_sources.py"
IDENTITY = "tests/data/test_identity.py"
UNITS = "tests/data/test_units.py"
FORMATS = "tests/data/test_formats.py"
CERTIFICATES = "tests/privacy/test_certificate.py"
FIGURES = "tests/privacy/test_figures.py"
SIGNING, HANDING_OUT = "tests/run/test_signing.py", "tests/run/test_handing_out.py"
VERIFY = "tests/run/test_verify.py"
TEACHER = "tests/methods/test_teacher.py"
SCATTERING = "tests/nets/test_scattering.py"

NASTY, FORM = "tests/run/test_nasty.py", "tests/data/test_form.py"
ATTACK_UNITS = "tests/run/test_attack.py::test_one_record_of_each_unit_takes_part_and_nobody_is_on_two_sides"

MISTAKES = (
    Mistake("the audit gives each of two errors all that may go wrong", "attacks/audit.py", "tail = (1 - _checked(confidence)) / 2", "tail = 1 - _checked(confidence)", "tests/attacks/test_audit.py -k 5_6"),
    Mistake("the audit's threshold is chosen by what it counts", "attacks/audit.py", "return threshold, with_canary[n:], without[m:]", "return threshold, with_canary, without", "tests/attacks/test_audit.py -k split_apart"),
    Mistake("the audit pays nothing for delta in one run", "attacks/audit.py", "beta + 2 * canaries * delta * max(largest, 0.0)", "beta", "tests/attacks/test_audit.py -k pays_for_delta"),
    Mistake("the audit's recursion forgets the right guesses", "attacks/audit.py", "A += j / (guesses - j) * (demanded - W)", "A += 0.0", "tests/attacks/test_audit.py -k linear_programme"),
    Mistake("a canary of a group that is clipped by itself is seen as if alone", "run/watched.py", "return np.asarray((squares / norms) @ tail)", "return np.asarray(tail[0] / norms[0])", "tests/run/test_audit_loops.py -k declared_noise"),
    Mistake("an audit has every trial with the canary", "run/trials.py", "random(count) < 0.5", "random(count) < 2", "tests/run/test_audit_loops.py -k a_coin_decides"),
    Mistake("a trial has the canary of the first", "run/trials.py", "watch.present = coins[trial]", "watch.present = coins[0]", "tests/run/test_audit_loops.py -k a_coin_decides"),
    Mistake("a canary that does not take part is drawn", "run/watched.py", "return inner if self.present else inner.map(canaries.others)", "return inner", "tests/run/test_audit_loops.py -k a_coin_decides"),
    Mistake("other critics' answers are heard as the canary's", 'run/watched.py', 'self.keep(0.5, rate=rate, noise=joint)', 'self.keep(0.4, rate=rate, noise=joint)', 'tests/run/test_audit_loops.py -k listened_to'),
    Mistake("draws that everyone knows are audited as secret ones", "run/trials.py", "bounds.told_epsilon if self.told else", "bounds.poisson_gaussian_epsilon if self.told else", "tests/run/test_audit_loops.py -k listened_to"),
    Mistake("a steered canary is added to what other records say there", "run/watched.py", "(pulls[:, group] - own @ u)", "pulls[:, group]", "tests/run/test_audit_loops.py -k steered"),
    Mistake("an attacker on models takes the start of training for the canary", "attacks/weights.py", "moved = (with_canary - without).mean(0)", "moved = with_canary.mean(0)", "tests/attacks/test_audit.py -k weights_count"),
    Mistake("processes of an audit draw the same noise", "run/trials.py", "self.noise_seed + (part << 20)", "self.noise_seed", "tests/run/test_audit_loops.py -k dealt_to"),
    Mistake("an audit that refutes ends with status 0", "run/commands/audit.py", "exit(int(found.verdict == REFUTED))", "exit(0)", "tests/run/test_audit_loops.py -k exit_status"),
    Mistake("a run whose audit refuted it verifies", "run/verify.py", "if refuted(folder.path):", "if False:", "tests/run/test_audit_loops.py -k refuted_does_not_verify"),
    Mistake("a release does not say what its audit measured", "run/release.py", "if said := audited(folder):", "if said := \"\":", "tests/run/test_audit_loops.py -k goes_into_its_report"),
    Mistake("a claim is refuted by nothing", "run/audit.py", "return REFUTED if max(self.lower_bound, self.counted) > self.claim else CONSISTENT", "return CONSISTENT", "tests/run/test_audit_loops.py -k refutes_it"),
    Mistake("no clipping", "privacy/engine/clipping.py", "(norm / square.sqrt()).clamp(max=1)", "torch.ones_like(square)", MECHANISMS),
    Mistake("what stood in a new sum's memory is left where no product writes", "privacy/engine/clipping.py", "            if number not in written:\n                view.zero_()", "            if False:\n                view.zero_()", GRADIENTS),
    Mistake("every physical batch begins the sum anew", "privacy/engine/answers.py", "bounds, fresh=fresh)\n        fresh = False", "bounds, fresh=fresh)", GRADIENTS),
    Mistake("a sum of units alone begins with what stood in its memory", "privacy/engine/answers.py", "    if fresh:\n        out.zero_()\n    for unit in several:", "    for unit in several:", GRADIENTS),
    Mistake("clipping to twice the bound", "privacy/engine/clipping.py", "(norm / square.sqrt()).clamp(max=1)", "(2 * norm / square.sqrt()).clamp(max=1)", MECHANISMS),
    Mistake("a unit's records are clipped one by one", "privacy/engine/answers.py", "single, several = by_unit(records) if clips(bounds) else (records, [])", "single, several = records, []", MECHANISMS),
    Mistake("a record that is not finite is multiplied by zero", "privacy/engine/clipping.py", "dropped if bool(dropped.any()) else None)", "None)", f"{GRADIENTS} {MECHANISMS}"),
    Mistake("no guard against cancellation in Gram norms", "privacy/engine/rounding.py", "return raised(squares, u, b, dtype, steps + u_gram.shape[1] + 1)", "return squares.clamp(min=0)", GRADIENTS),
    Mistake("the guard's error is a constant, however long the products are", "privacy/engine/rounding.py", "(steps / 2 + FLOOR) * kind.eps * terms.square()", "16 * kind.eps * terms.square()", ROUNDING),
    Mistake("long products are summed in one piece", "privacy/engine/rounding.py", "    first, *others = features.chunk(-(-features.shape[1] // PRODUCTS), dim=1)", "    first, *others = (features,)", ROUNDING),
    Mistake("what the weight-gradient call rounds is not in the norm", "privacy/engine/rounding.py", "return (norm + 2 * (u.shape[1] + 1) * kind.eps * terms).square()", "return norm.square()", ROUNDING),
    Mistake("a record's terms may be as long as they like before they cancel", "privacy/engine/rounding.py", "FLOOR = 32.0", "FLOOR = 0.0", ROUNDING),
    Mistake("no guard on gradients of rank one", "privacy/engine/pieces.py", "return square_norms(self.a) * square_norms(self.b)\n", "return self.a.square().sum(1) * self.b.square().sum(1)\n", ROUNDING),
    Mistake("squares that vanish are lost", "privacy/engine/rounding.py", "return total + size * torch.finfo(rows.dtype).tiny", "return total", ROUNDING),
    Mistake("the rounding slack is not charged", "privacy/engine/rounding.py", "return bound / (1 + SLACK * torch.finfo(dtype).eps)", "return bound", ROUNDING),
    Mistake("a pixel that no tap reads may be NaN", "privacy/engine/ghost.py", "return squares + self.uses.unread(lo, hi)", "return squares", "tests/privacy/test_tape_layers.py"),
    Mistake("TF32 is left on", "privacy/engine/rounding.py", "place.fp32_precision = \"ieee\"", "pass", ROUNDING),
    Mistake("TF32 is off in norms, and on in sums", "privacy/engine/clipping.py", "    for part in parts:\n        put =", "    for part in parts:\n        torch.set_float32_matmul_precision(\"medium\")\n        put =", ROUNDING),
    Mistake("constant planes: the norm forgets the constants", "privacy/engine/layers/planes.py", "return square_norms(self.a) * square_norms(self.b.flatten(1))", "return square_norms(self.b.flatten(1))", "tests/privacy/test_tape_layers.py"),
    Mistake("a convolution's kept gradients stay in the order of unfolding", "privacy/engine/pieces.py", "total = by_channels(total.view(len(out), -1), self.taps)", "pass", "tests/privacy/test_tape_layers.py"),
    Mistake("every phase of a strided layer reads the pixels of the first", "privacy/engine/layers/phase.py", "start = stride * first + phase", "start = stride * first", "tests/privacy/test_tape_layers.py"),
    Mistake("a table that is also a matrix is normed as a table", "privacy/engine/ghost.py", "return offered[0] if len({type(call.layer) for call in uses.calls}) == 1 else BY_PATCHES", "return offered[0]", "tests/privacy/test_tape_layers.py"),
    Mistake("one kernel with and without groups is unfolded as if with", "privacy/engine/ghost.py", " or len({call.layer.groups for call in uses.calls}) > 1:", ":", "tests/privacy/test_tape_layers.py"),
    Mistake("rows of one record are taken for records", "privacy/engine/uses.py", "permute(1, 3, 0, 2).flatten(2)", "permute(1, 3, 0, 2)[:, :, 0]", "tests/privacy/test_tape_layers.py"),
    Mistake("a bias's rows of one record are not added up", "privacy/engine/ghost.py", "rows = folded(call.bias_gradients, multiplicity)", "rows = call.bias_gradients[: len(call.bias_gradients) // multiplicity]", "tests/privacy/test_tape_layers.py"),
    Mistake("every group is clipped by the first group's factor", "privacy/engine/clipping.py", "factors[groups[part.parameter]]", "factors[0]", MECHANISMS),
    Mistake("noise x 0.9", "privacy/mechanisms.py", "self.noise_multiplier * self.max_norm)", "0.9 * self.noise_multiplier * self.max_norm)", MECHANISMS),
    Mistake("noise forgets max_norm", "privacy/mechanisms.py", "self.noise_multiplier * self.max_norm)", "self.noise_multiplier)", MECHANISMS),
    Mistake("group sensitivity 1 instead of sqrt(k)", "privacy/mechanisms.py", "return len(self.bounds.norms) ** -0.5 if self.weights", "return 1.0 if self.weights", MECHANISMS),
    Mistake("every group has the first group's noise", "privacy/mechanisms.py", "self.bounds.norms[group] / self._weight(group)", "self.bounds.norms[0] / self._weight(group)", MECHANISMS),
    Mistake("weights that hide noise", "privacy/mechanisms.py", "sum(w * w for w in weights) > 1 + 1e-9", "sum(weights) > 1 + 1e-9", MECHANISMS),
    Mistake("a vote on the quantile is never scaled to its bound", "privacy/quantiles.py", "min(1.0, bounds.norms[0] / self.sensitivity)", "1.0", "tests/privacy/test_quantiles.py"),
    Mistake("the quantile divides by the drawn batch", "privacy/quantiles.py", "return votes.sum(0) *", "return votes.sum(0) / max(1, len(votes)) *", "tests/privacy/test_quantiles.py"),
    Mistake("the quantile is not charged", "methods/dp_wgan/__init__.py", "            plan.append((question,", "            ((question,", "tests/methods/test_dp_wgan.py"),
    Mistake("the quantile follows the noiseless vote", "methods/dp_wgan/loop.py", "    answer = private.release(release, question)\n", "    exact: list[Tensor] = []\n    private.update(lambda held: exact.append(release._ask(held, question)))\n    answer = 0 * private.release(release, question) + exact[0]\n", "tests/privacy/test_quantiles.py"),
    Mistake("dp-wgan's public bounds come from the private records", "methods/dp_wgan/loop.py", "state.norms = public_norms(run, state, run.public)", "private.update(lambda held: setattr(state, \"norms\", public_norms(run, state, held)))", "tests/methods/test_dp_wgan.py"),
    Mistake("dp-wgan divides by the size of the warm batch", "methods/dp_wgan/loop.py", "        D.step(g.div_(B))", "        D.step(g.div_(config.warm_batch_size))", "tests/methods/test_dp_wgan.py"),
    Mistake("dp-wgan's generator descends on its own score", "methods/dp_wgan/loop.py", "loss = -state.D.net(2 *", "loss = state.D.net(2 *", "tests/methods/test_dp_wgan.py"),
    Mistake("dp-wgan's private steps go on with the optimisers of the warm start", "methods/dp_wgan/loop.py", "    state.renew(config, config.critic_learning_rate, config.generator_learning_rate)\n", "", "tests/methods/test_dp_wgan.py"),
    Mistake("dp-wgan's plan takes more groups than the critic has tensors", "methods/dp_wgan/__init__.py", "            loop.check_groups(config, card)\n", "            pass\n", "tests/methods/test_dp_wgan.py"),
    Mistake("critics learn to score fakes above records", "privacy/engine/penalty.py", "losses: Tensor = fake - real +", "losses: Tensor = real - fake +", "tests/privacy/test_penalty.py"),
    Mistake("the penalty on a critic's slope is taken off", "privacy/engine/penalty.py", "drift * real.square() + penalty * (length", "drift * real.square() - penalty * (length", "tests/privacy/test_penalty.py"),
    Mistake("dp-wgan releases the last weights, not the average", "methods/dp_wgan/loop.py", "return self.G.average.released", "return self.G.net", "tests/methods/test_release.py"),
    Mistake("fakes of a record come from a public stream", "methods/dp_wgan/loop.py", "critic_gradient(run, state, run.rng.secret_generator)", "critic_gradient(run, state, lambda: run.rng.public(\"latents\"))", CONFORMANCE),
    Mistake("2 C2 taken as C2", "privacy/termwise.py", "sensitivity = 2 * self.max_norm_batch", "sensitivity = self.max_norm_batch", TERMWISE),
    Mistake("2 C2 only where there are two groups or more", "privacy/termwise.py", "sensitivity = 2 * self.max_norm_batch", "sensitivity = min(2, self.partitions) * self.max_norm_batch", TERMWISE),
    Mistake("each of two terms has the noise of one", "privacy/termwise.py", "first, second = self.weights or (0.5**0.5, 0.5**0.5)", "first, second = 1.0, 1.0", TERMWISE),
    Mistake("groups of a draw by position, not by coins", "privacy/termwise.py", "coins = self.rng.integers(drawn.population, self.partitions)", "coins = np.arange(drawn.population) * self.partitions // max(1, drawn.population)", TERMWISE),
    Mistake("a group's gradient is not clipped", "privacy/termwise.py", "clip_whole(query.group_gradient(members), self.max_norm_batch)", "query.group_gradient(members)", TERMWISE),
    Mistake("a group that is not finite is multiplied by zero", "privacy/engine/rounding.py", "wide = torch.where(wide.isfinite().all(1, keepdim=True), wide, 0.0)", "wide = wide * wide.isfinite().all(1, keepdim=True)", TERMWISE),
    Mistake("two sums, division by the drawn batch", "privacy/termwise.py", "return torch.stack([samples, batches])", "return torch.stack([samples / max(1, drawn.population), batches])", TERMWISE),
    Mistake("a whole answer's noise is for C, not 2 C", "privacy/termwise.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * self.max_norm", TERMWISE),
    Mistake("the whole answer is not clipped", "privacy/termwise.py", "return clip_whole(query.whole(self._drawn(held)), self.max_norm)", "return query.whole(self._drawn(held))", f"{TERMWISE} tests/methods/test_privae.py"),
    Mistake("reparametrisation coins come from a public stream", "methods/privae/objective.py", "generator=rng.secret_generator())", "generator=rng.public(\"coins\"))", "tests/methods/test_privae.py"),
    Mistake("the draws of a code add up", "methods/privae/objective.py", "return (reconstruction + config.beta * divergence) / L", "return reconstruction + config.beta * divergence", "tests/methods/test_privae.py"),
    Mistake("the encoder is released unasked", "methods/privae/loop.py", "        if not self.with_encoder:\n            net.encoder = None\n", "", "tests/methods/test_privae.py"),
    Mistake("privae releases the last weights, not the average", "methods/privae/loop.py", "net = copy.deepcopy(self.average.released)", "net = copy.deepcopy(self.vae.net)", "tests/methods/test_privae.py tests/methods/test_release.py"),
    Mistake("privae's divergence has the wrong sign", "methods/privae/objective.py", "(reconstruction + config.beta * divergence) / L", "(reconstruction - config.beta * divergence) / L", "tests/methods/test_privae.py"),
    Mistake("privae forgets beta", "methods/privae/objective.py", "(reconstruction + config.beta * divergence) / L", "(reconstruction + divergence) / L", "tests/methods/test_privae.py"),
    Mistake("the sum over groups is divided by the batch", "methods/privae/loop.py", "released[1] / config.partitions", "released[1] / config.expected_batch_size", "tests/methods/test_privae.py"),
    Mistake("a shuffled batch for Poisson sampling", "privacy/noise.py", "        return np.concatenate(drawn)", "        return np.sort(np.random.default_rng().permutation(population)[: round(population * rate)])", f"{MECHANISMS} {NOISE}"),
    Mistake("records are drawn more often than charged", "privacy/mechanisms.py", "self.rng.poisson_sample(held.population, self.sampling_rate)", "self.rng.poisson_sample(held.population, min(1.0, 1.1 * self.sampling_rate))", MECHANISMS),
    Mistake("the rate is rounded to whole numbers of the real records", "privacy/mechanisms.py", "self.rng.poisson_sample(held.population, self.sampling_rate)", "self.rng.poisson_sample(held.population, round(self.sampling_rate * held.population) / max(1, held.population))", MECHANISMS),
    Mistake("division by the drawn batch", "privacy/mechanisms.py", "        return query.clipped_sum(self._drawn(held), Bounds(norms=(self.max_norm,)))", "        drawn = self._drawn(held)\n        return query.clipped_sum(drawn, Bounds(norms=(self.max_norm,))) / max(1, drawn.population)", MECHANISMS),
    Mistake("an empty draw is skipped", "privacy/mechanisms.py", "        if self.noise_multiplier > 0:\n            self.rng", "        if self.noise_multiplier > 0 and bool(total.any()):\n            self.rng", MECHANISMS),
    Mistake("charge after read", "privacy/confined.py", "        self.__ledger.charge(mechanism.event)\n        return _inside(lambda: mechanism(self.__held, query)).detach()", "        out = _inside(lambda: mechanism(self.__held, query)).detach()\n        self.__ledger.charge(mechanism.event)\n        return out", CONFINED),
    Mistake("no charge", "privacy/confined.py", "        self.__ledger.charge(mechanism.event)\n", "", f"{CONFINED} {CONFORMANCE}::test_spends_its_plan"),
    Mistake("a failing query shows its message", "privacy/confined.py", "        return compute()\n    except GossamerError:", "        return compute()\n    except (GossamerError, ValueError):", CONFINED),
    Mistake("a Confined value can be pickled", "privacy/confined.py", "    def __reduce_ex__(self, protocol: object) -> NoReturn:", "    def _reduce_ex(self, protocol: object) -> NoReturn:", CONFINED),
    Mistake("a fixed noise seed passes for private", "privacy/confined.py", "if mechanism.rng.reproducible:", "if False:", CONFINED),
    Mistake("declassify keeps the finite epsilon", "privacy/ledger.py", "            self.reasons.append(reason)\n", "", f"{LEDGER} {CONFINED}"),
    Mistake("every phase of a run says the same reason again", "privacy/ledger.py", "        if reason not in self.reasons:", "        if True:", LEDGER),
    Mistake("the plan may exceed the budget", "privacy/ledger.py", "            if cost.epsilon > self.budget:", "            if cost.epsilon > 2 * self.budget and False:", LEDGER),
    Mistake("each plan is held against the budget alone", "privacy/ledger.py", "total = merge([*self.plan, *plan])", "total = merge(plan)", LEDGER),
    Mistake("more releases than reserved", "privacy/ledger.py", "            if block <= 0:", "            if block <= -BLOCK:", LEDGER),
    Mistake("charges stay in memory until the block is used up", "privacy/ledger.py", "if self._file.write(text) != len(text):", "if False:", LEDGER),
    Mistake("charges are written, but not synced", "privacy/ledger.py", "                os.fsync(self._file.fileno())\n", "", LEDGER),
    Mistake("charges are synced before they are written", "privacy/ledger.py", "                if self._file.write(text) != len(text):  # unbuffered: a disk that fills up takes a part of it\n                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n                os.fsync(self._file.fileno())", "                os.fsync(self._file.fileno())\n                self._file.write(text)", LEDGER),
    Mistake("half a block stays in the ledger of a full disk", "privacy/ledger.py", "                self._file.truncate()\n", "", LEDGER),
    Mistake("lines that were not written count", "privacy/ledger.py", "        text, last_hash, lines = b\"\", self.last_hash, self.lines\n", "        text, last_hash, lines = b\"\", self.last_hash, self.lines\n        bodies = list(bodies)\n        self.lines += len(bodies)\n", LEDGER),
    Mistake("a resume takes back what was written ahead", "privacy/ledger.py", "            self._charge_lines.append(self.lines + 1)\n", "            self._charge_lines.append(self.lines + 1)\n            self._prepaid[number] = min(self._prepaid[number] + 1, 12)\n", LEDGER),
    Mistake("a torn line counts as nothing", "privacy/ledger.py", "        if torn:\n            for number", "        if False:\n            for number", LEDGER),
    Mistake("a torn line costs a block of the first event only", "privacy/ledger.py", "for number in range(len(ledger._events)):", "for number in range(1):", LEDGER),
    Mistake("the hash chain is not looked at", "privacy/ledger.py", "    if stated != expected:", "    if False:", LEDGER),
    Mistake("the hash does not cover the line before", "privacy/ledger.py", "hashlib.sha256((last_hash + json", "hashlib.sha256((json", LEDGER),
    Mistake("two processes write one ledger", "privacy/ledger.py", "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "        pass", LEDGER),
    Mistake("--force takes an unfinished run", "run/folder.py", "        if not self.finished:\n            raise", "        if not self.finished and not force:\n            raise", "tests/run/test_spending.py::test_force_takes_no_unfinished_run"),
    Mistake("--force takes a live run", "files.py", "            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))", "            wait and fcntl.flock(file, fcntl.LOCK_EX)", "tests/run/test_spending.py::test_force_takes_no_run_that_another_process_has tests/run/test_spending.py::test_of_two_that_begin_at_once_one_wins"),
    Mistake("--force takes a run whose ledger is being written", "run/folder.py", "        with locked(self.file(LEDGER), \"r+b\"):", "        if True:", "tests/run/test_spending.py::test_force_takes_no_run_that_another_process_has"),
    Mistake("a fit is not charged", "run/accounts.py", "        pages.enter(charge, session)\n    return Booked", "    return Booked", "tests/run/test_spending.py::test_the_whole_plan_is_charged_before_the_first_step"),
    Mistake("an unknown run resumes uncharged", "run/accounts.py", "        if entry is None:\n            pages.enter(charge, session)\n        else:", "        if entry is not None:", "tests/run/test_spending.py::test_a_run_that_the_book_does_not_know_is_entered_and_said"),
    Mistake("a copy of a run goes on for free", "run/accounts.py", "pages.holder(ledger.sessions, ledger.last_hash)", "next((each for each in pages.entries if each.charge.run == charge.run), None)", "tests/run/test_spending.py::test_of_two_copies_one_goes_on_and_the_other_is_a_run_of_its_own"),
    Mistake("an old session is accepted for ever", "privacy/accounts.py", "entry.session, entry.finished = session, \"\"", "entry.finished = \"\"", "tests/privacy/test_accounts.py"),
    Mistake("a copy made while the run trained goes on for free", "privacy/accounts.py", " and entry.finished in (\"\", last_hash):", ":", "tests/privacy/test_accounts.py"),
    Mistake("a copy of a run that was given up goes on for free", "privacy/accounts.py", "entry.session == session and not entry.discarded", "entry.session == session", "tests/privacy/test_accounts.py"),
    Mistake("a run that a copy has overtaken is certified without a charge", "run/accounts.py", "            if entry is None:\n                pages.account(self.charge.name", "            if entry is None:\n                return\n                pages.account(self.charge.name", "tests/run/test_spending.py::test_a_copy_resumed_while_the_run_trains_makes_the_run_pay_again"),
    Mistake("the limit is not looked at", "privacy/accounts.py", "            if total.epsilon > limit.epsilon:", "            if False:", "tests/privacy/test_accounts.py"),
    Mistake("the limit is held against each run alone", "privacy/accounts.py", "together([*runs, charge.spending], delta", "together([charge.spending], delta", "tests/privacy/test_accounts.py"),
    Mistake("a looser limit replaces a stricter one", "privacy/accounts.py", "        if old is not None and not limit.within(old) and not force:", "        if False:", "tests/privacy/test_accounts.py"),
    Mistake("the account book can be read by everyone", "files.py", "os.fchmod(file.fileno(), 0o600)", "os.fchmod(file.fileno(), 0o644)", "tests/privacy/test_accounts.py"),
    Mistake("a torn line of the book is not written over", "privacy/accounts.py", "self._file.seek(self._end)", "self._file.seek(0, os.SEEK_END)", "tests/privacy/test_accounts.py"),
    Mistake("a data set loses its history when its records change", "privacy/accounts.py", "if entry.charge.name in known or entry.charge.mark in marks]", "if entry.charge.mark in marks]", "tests/privacy/test_accounts.py"),
    Mistake("the same records under another name begin anew", "privacy/accounts.py", "if entry.charge.name in known or entry.charge.mark in marks]", "if entry.charge.name in known]", "tests/privacy/test_accounts.py"),
    Mistake("the certificate counts runs by the digest of the records", "run/accounts.py", "named = pages.under(charge.name)", "named = account", "tests/run/test_spending.py::test_the_released_settings_follow_from_the_name_and_never_from_the_records"),
    Mistake("a run with a fixed noise seed counts as private in the book", "run/accounts.py", "infinite=infinite or math.isinf", "infinite=math.isinf", "tests/run/test_spending.py::test_runs_without_a_guarantee_make_the_sum_infinite_from_then_on"),
    Mistake("a run given up leaves no charge", "run/spending.py", "entry = pages.enter(charge, session=\"\")", "pass", "tests/run/test_spending.py::test_giving_up_a_run_of_another_book_enters_it"),
    Mistake("an untrained network is certified", "run/fit.py", "        if not any(ledger.unused) and (", "        if False and (", "tests/run/test_spending.py::test_an_untrained_network_is_not_certified"),
    Mistake("the demo takes a run that is not its own", "run/demo.py", "{**CARD.to_dict(), **card} == CARD.to_dict()", "True", "tests/run/test_spending.py::test_the_demo_has_a_book_of_its_own_and_takes_no_other_run"),
    Mistake("exchanging a record is one step of removing", "privacy/composition.py", "(1 if relation is ADD_OR_REMOVE_ONE else 2) *", "1 *", "tests/privacy/test_composition.py"),
    Mistake("taking a record from a writer is one step", "privacy/composition.py", "* (1 if run.unit == unit else 2)", "* 1", "tests/privacy/test_composition.py"),
    Mistake("two steps spend the delta of one", "privacy/composition.py", "if log_part + grown <= math.log(delta):", "if log_part <= math.log(delta):", "tests/privacy/test_composition.py"),
    Mistake("families of runs have all of delta each", "privacy/composition.py", "_epsilon(family, delta / len(families))", "_epsilon(family, delta)", "tests/privacy/test_composition.py"),
    Mistake("replace-one runs are read as add-or-remove-one", "privacy/composition.py", "    return secret and bool", "    return True or bool", "tests/privacy/test_composition.py"),
    Mistake("the certificate states what is spent, not what is reserved", "privacy/certificate.py", "found = accounting.bounds(merge(ledger.plan)", "found = accounting.bounds([(e, max(1, n)) for (e, _), n in zip(ledger.plan, ledger.used, strict=True)]", "tests/privacy/test_certificate.py"),
    Mistake("verify does not see a cut tail", "privacy/certificate.py", "    if not same(stated.get(\"ledger\"), pinned):", "    if False:", f"{CERTIFICATES}::test_a_cut_tail_of_the_ledger_shows"),
    Mistake("verify does not see an edited certificate", "privacy/certificate.py", "        if _digest(line) != digest:", "        if False:", "tests/privacy/test_certificate.py"),
    Mistake("verify does not look at the model", "privacy/certificate.py", "    if not same(stated.get(\"model\"), {\"file\": MODEL, \"sha256\": model_sha256}):", "    if False:", f"{CERTIFICATES}::test_another_model_shows"),
    Mistake("verify forgives one per cent of epsilon", "privacy/differences.py", "TOLERANCE = 1e-6", "TOLERANCE = 1e-2", f"{CERTIFICATES}::test_last_digits_may_differ_between_machines_and_nothing_else"),
    Mistake("verify compares epsilon only", "privacy/certificate.py", "in (name for name in rebuilt if name not in _LOOKED_AT):", "in ():", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("verify does not look at delta", "privacy/certificate.py", "taken = {**found, \"epsilon\": right[\"epsilon\"]} if", "taken = right if", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("verify takes the statement as stated", "privacy/certificate.py", "_LOOKED_AT = (", "_LOOKED_AT = (\"statement\", ", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("one is as good as true", "privacy/differences.py", "    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)", "    return bool(one == other)", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("the ledger does not pin the settings", "privacy/certificate.py", "    if hashlib.sha256(config).hexdigest() != ledger.settings:", "    if False:", f"{CERTIFICATES}::test_settings_and_certificate_edited_alike_are_pinned_by_the_ledger"),
    Mistake("of an entry that stands twice the first is shown and the last is checked", "privacy/certificate.py", "        if len(dict(pairs)) < len(pairs):", "        if False:", f"{CERTIFICATES}::test_people_and_programs_read_the_same_entries"),
    Mistake("verify follows links", "privacy/certificate.py", "            if (folder / name).is_symlink():", "            if False:", f"{CERTIFICATES}::test_a_link_is_not_a_file_of_the_folder"),
    Mistake("sample takes a damaged folder", "privacy/certificate.py", "        if files is None or problems:", "        if files is None:", f"{CERTIFICATES}::test_what_may_be_sampled_from_is_checked_first"),
    # -- figures of a certificate, declarations, signatures, what is handed out
    Mistake("epsilon at a smaller delta is that at the run's own", "privacy/figures.py", "[_at(ledger, smaller(ledger.delta, digits)) for", "[{**_at(ledger, ledger.delta), \"delta\": smaller(ledger.delta, digits)} for", f"{FIGURES}::test_epsilon_at_three_deltas_is_what_the_accountants_say_there"),
    Mistake("mu is half of what it is", "privacy/figures.py", "square += count / noise**2 if", "square += count / (4 * noise**2) if", f"{FIGURES}::test_mu_of_gaussians_over_everyone_is_exact"),
    Mistake("mu of a release without noise is finite", "privacy/figures.py", "if noise > 0 else math.inf", "if noise > 0 else 0.0", f"{FIGURES}::test_without_noise_every_figure_is_infinity"),
    Mistake("mu is called exact where releases are sampled", "privacy/figures.py", "sampled = sampled or not isinstance(event, GaussianDpEvent)", "sampled = False", f"{FIGURES}::test_mu_is_an_upper_bound_at_every_delta_stated"),
    Mistake("after a declassify the figures stay finite", "privacy/figures.py", "    if ledger.reasons:\n        return {\"epsilon\"", "    if False:\n        return {\"epsilon\"", f"{FIGURES}::test_after_a_declassify_every_figure_is_infinity"),
    Mistake("the Renyi curve counts every event once", "privacy/figures.py", "accountant.curve(plan, ledger.relation)", "accountant.curve(tuple((event, 1) for event, _ in plan), ledger.relation)", f"{FIGURES}::test_the_renyi_curve_is_that_of_gaussians_and_adds_up"),
    Mistake("a component alone costs what one release of it costs", "privacy/figures.py", "_cost(ledger, [(event, count)], ledger.delta)", "_cost(ledger, [(event, 1)], ledger.delta)", f"{FIGURES}::test_each_component_is_named_with_its_event_and_its_cost_alone"),
    Mistake("components may be other than the reserved plan", "privacy/figures.py", "    if dict(merge([(event, count) for _, event, count in parts])) != dict(merge(ledger.plan)):", "    if False:", f"{FIGURES}::test_components_that_are_not_the_reserved_plan_are_refused"),
    Mistake("components are not held against the phases", "run/verify.py", "    if not same_parts:", "    if False:", f"{HANDING_OUT}::test_components_in_the_settings_are_the_phases_of_the_method"),
    Mistake("figures of a certificate are taken as stated", "privacy/differences.py", "    return expected if within(stated, expected) else stated", "    return expected", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("a certificate drops its new entries by calling itself old", "privacy/certificate.py", "cut = \"components\" in settings", "cut = False", f"{CERTIFICATES}::test_nobody_gets_rid_of_the_new_entries_by_calling_it_an_old_certificate"),
    Mistake("what is declared may have any form", "privacy/certificate.py", "    wrong = what_is_wrong(stated.get(\"declared\"))", "    wrong = \"\"", f"{CERTIFICATES}::test_every_entry_is_compared_even_under_a_new_seal"),
    Mistake("what nobody declared is left out in silence", "privacy/declared.py", "    found = nothing_declared()\n", "    found = {\"attacked\": {}}\n", "tests/privacy/test_declarations.py::test_what_was_left_out_says_so"),
    Mistake("a signature by any key will do", "run/signing.py", "    if wanted is not None and said[\"public_key\"] != wanted:", "    if False:", f"{SIGNING}::test_the_way_through_the_command_line"),
    Mistake("a signature is not checked", "run/signing.py", "verify(signature, _message(said))", "public_bytes_raw()", f"{SIGNING}::test_what_a_signature_says_cannot_be_changed"),
    Mistake("no signature is as good as one", "run/signing.py", "        return [f\"{SIGNATURE} is missing: it is not signed.\"], []", "        return [], []", f"{SIGNING}::test_without_a_signature_a_key_is_not_satisfied"),
    Mistake("a signature over fewer files passes", "run/signing.py", "    if sorted(said[\"files\"]) != sorted(names):", "    if False:", f"{SIGNING}::test_a_signature_over_fewer_files_is_none_of_this_folder"),
    Mistake("signed files may change", "run/signing.py", " or sha256(folder / name) != said[\"files\"][name]", "", f"{SIGNING}::test_an_edit_of_any_field_is_caught_under_new_seals_and_sums"),
    Mistake("a signature may say a thing twice", "run/signing.py", "        if content != _text(said):", "        if False:", f"{SIGNING}::test_garbage_is_no_signature"),
    Mistake("a new private key is readable by all", "run/signing.py", "write_atomically(path, private_text, private=True)", "write_atomically(path, private_text)", f"{SIGNING}::test_the_way_through_the_command_line"),
    Mistake("the private key may lie in what is handed out", "run/release.py", "    if folder.resolve() in path.resolve().parents:", "    if False:", f"{SIGNING}::test_a_key_is_never_replaced_and_never_lies_in_what_is_handed_out"),
    Mistake("what does not verify is signed", "run/release.py", "    if problems:", "    if False:", f"{SIGNING}::test_what_does_not_verify_is_not_signed"),
    Mistake("an attacked run says that nobody attacked it", "run/release.py", "    if (folder / ATTACKS).is_file() and", "    if False and", f"{HANDING_OUT}::test_that_a_run_was_attacked_is_told_and_what_came_of_it_is_not"),
    Mistake("the loader takes a model that was not certified", "run/load.py.txt", "    if hashlib.sha256(weights).hexdigest() != certificate[\"model\"][\"sha256\"]:", "    if False:", f"{HANDING_OUT}::test_a_release_is_loaded_by_its_own_file_and_another_model_is_not"),
    Mistake("the loader needs packages that a release does not bring", "run/loader.py", "                if package not in _ALLOWED:", "                if False:", f"{HANDING_OUT}::test_the_loader_draws_what_gossamer_draws_for_every_method_or_is_refused"),
    Mistake("the README prints epsilon rounded down", "run/readme.py", "    return rounded_up(float(epsilon))", "    return f\"{float(epsilon) - 5e-4:.3f}\"", f"{HANDING_OUT}::test_the_readme_has_a_line_for_each_question_and_each_attack"),
    Mistake("the README is silent about settings chosen on the records", "run/readme.py", "    if declared[\"settings_chosen\"] == \"uncounted\":", "    if False:", f"{HANDING_OUT}::test_the_way_through_the_command_line"),
    Mistake("a plan may shrink after the fact", "privacy/ledger.py", "type(count) is int and count >= 0 for", "True for", f"{CERTIFICATES}::test_a_line_that_no_ledger_writes_is_refused_under_a_good_chain"),
    Mistake("a ledger may open twice", "privacy/ledger.py", "        elif not first:", "        elif \"open\" not in body:", f"{CERTIFICATES}::test_a_line_that_no_ledger_writes_is_refused_under_a_good_chain"),
    Mistake("verify does not hold the settings against the opening of the ledger", "run/verify.py", "        if says[name] != opened[name]", "        if False", f"{VERIFY}::test_settings_that_lead_elsewhere_than_the_ledger"),
    Mistake("verify does not hold the settings against the plan", "run/verify.py", "    if not same:", "    if False:", f"{VERIFY}::test_settings_that_lead_elsewhere_than_the_ledger"),
    Mistake("an edited report of a release verifies", "run/verify.py", "        elif sha256(path) != digest:", "        elif False:", f"{VERIFY}::test_an_edited_report_does_not_verify"),
    Mistake("the noise comes from the public seed", "privacy/noise.py", "_Keystream(_fixed_key(noise_seed, purpose))", "_Keystream(_fixed_key(seed, purpose))", f"{NOISE} {CONFORMANCE}"),
    Mistake("the noise is added in float32", "privacy/noise.py", "second.copy_(wide.copy_(second).addcmul_(radius, angle.sin_(), value=std))", "second.addcmul_(radius.to(second.dtype), angle.sin_().to(second.dtype), value=std)", NOISE),
    Mistake("the radius has 24 bits", "privacy/noise.py", ".log_().mul_(drawn.minus_two).sqrt_()", ".log_().mul_(drawn.minus_two).sqrt_().copy_(radius.float())", NOISE),
    Mistake("the cosines have 24 bits", "privacy/noise.py", "torch.cos(angle, out=drawn.cosine)", "angle.float().cos().double()", NOISE),
    Mistake("the sum with noise is on no grid", "privacy/noise.py", "        round_to_grid_(halves, std)\n", "", NOISE),
    Mistake("the grid follows the size of the sum", "privacy/noise.py", "round_to_grid_(halves, std)", "round_to_grid_(halves, max(std, float(halves.abs().max())))", NOISE),
    Mistake("the grid is as fine as float32", "privacy/noise.py", "math.frexp(std)[1] - 11)", "math.frexp(std)[1] - 24)", NOISE),
    Mistake("the sum is rounded to the grid before the noise", "privacy/noise.py", "        first, second = halves\n", "        first, second = round_to_grid_(halves, std)\n", NOISE),
    Mistake("an angle may be zero", "privacy/noise.py", "[_BELOW_ONE, -2.0, _STEP / 2]", "[_BELOW_ONE, -2.0, 0.0]", NOISE),
    Mistake("a radius may be zero", "privacy/noise.py", "_BELOW_ONE = 1 - 2.0**-53", "_BELOW_ONE = 1 - 2.0**-52", NOISE),
    Mistake("a radius may be infinite", "privacy/noise.py", "_BELOW_ONE = 1 - 2.0**-53", "_BELOW_ONE = 1.0", NOISE),
    Mistake("the standard deviation is forgotten, on every device", "privacy/noise.py", "angle.sin_(), value=std))", "angle.sin_(), value=1.0))", f"{NOISE} {MECHANISMS}"),
    Mistake("the sines have no noise", "privacy/noise.py", "        second.copy_(wide.copy_(second).addcmul_(radius, angle.sin_(), value=std))\n", "", NOISE),
    Mistake("one key serves for ever", "privacy/noise.py", " or self.position > _ONE_KEY - size", "", NOISE),
    Mistake("a run's keystream has a fixed nonce and key", "privacy/noise.py", "Cipher(algorithms.AES(os.urandom(16)), modes.GCM(os.urandom(12)))", "Cipher(algorithms.AES(bytes(16)), modes.GCM(bytes(12)))", NOISE),
    Mistake("coins of one block of units serve every block", "privacy/noise.py", "            coins = self._secret[\"coins\"].words(min(_COINS, population - start))\n", "            coins = self._secret[\"coins\"].words(_COINS) if start == 0 else coins\n            coins = coins[: population - start]\n", NOISE),
    Mistake("secret generators with 32 bits", "privacy/noise.py", "        return generator.set_state(state)", "        return generator.manual_seed(int(words[0]))", NOISE),
    Mistake("secret generators with half their words", "privacy/noise.py", "[3 : 3 + _TWISTER_WORDS] = torch.from_numpy(words)", "[3 : 3 + _TWISTER_WORDS // 2] = torch.from_numpy(words[: _TWISTER_WORDS // 2])", NOISE),
    Mistake("a checkpoint holds the position of the noise", "privacy/noise.py", "        if self.reproducible:\n            state", "        if True:\n            state", NOISE),
    Mistake("a printed bound is rounded down", "privacy/guarantee.py", "rounding=ROUND_CEILING", "rounding='ROUND_FLOOR'", "tests/privacy/test_guarantee.py"),
    Mistake("a printed bound is rounded to the nearest", "privacy/guarantee.py", "rounding=ROUND_CEILING", "rounding='ROUND_HALF_EVEN'", "tests/privacy/test_guarantee.py"),
    Mistake("a printed delta loses its last digits", "privacy/guarantee.py", "    return repr(float(delta)).removesuffix(\".0\")", "    return f\"{delta:g}\"", "tests/privacy/test_guarantee.py"),
    Mistake("compare prints an epsilon to the nearest thousandth", "run/compare.py", "rounded_up(float(entry[\"epsilon\"]))", "f\"{float(entry['epsilon']):.3f}\"", "tests/run/test_compare.py"),
    Mistake("compare sorts its runs, and leaves the epsilons where they were", "run/compare.py", "rounded_up(float(entry[\"epsilon\"]))", "rounded_up(float(entries[0][\"epsilon\"]))", "tests/run/test_compare.py"),
    Mistake("delta of 1/N is accepted", "run/plan.py", "    if delta >= 1 / card.declared_size:", "    if False:", "tests/run/test_plan.py"),
    Mistake("a cheaper promise than asked is passed over", "run/plan.py", "<= cost <= epsilon:", "<= cost:", "tests/run/test_plan.py"),
    Mistake("the loss on records is logged", "methods/dpgan/loop.py", "        yield {**state.shown, \"released_norm\"", "        seen: list[float] = []\n        private.update(lambda held: seen.append(float(adversarial.loss_on_records(D.net, held).detach().mean())))\n        yield {\"loss\": seen[0], **state.shown, \"released_norm\"", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the real batch's labels go to the fakes", "methods/dpgan/loop.py", "        fakes = state.G.fakes(run, B)  # l. 5", "        shown: list[Tensor] = []\n        private.update(lambda held: shown.append(torch.from_numpy(held.labels[:B])))\n        fakes = adversarial.Fakes(state.G.fakes(run, len(shown[0])).images, shown[0])", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the number of fakes is the number of records", "methods/dpgan/loop.py", "        fakes = state.G.fakes(run, B)  # l. 5", "        sizes: list[int] = []\n        private.update(lambda held: sizes.append(len(held) // 10))\n        fakes = state.G.fakes(run, sizes[0])", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the plan forgets a factor in the rate", "methods/dpgan/__init__.py", "        rate = config.expected_batch_size / card.declared_size\n", "        rate = 0.5 * config.expected_batch_size / card.declared_size\n", f"{CONFORMANCE}::test_spends_its_plan"),
    Mistake("dpgan's frequency never rises", "methods/dpgan/loop.py", "        state.n_D, state.grace = larger[0], 0\n", "        state.grace = 0\n", DPGAN),
    Mistake("dpgan's frequency rises without a grace period", "methods/dpgan/loop.py", "if state.grace >= grace and state.accuracy", "if state.accuracy", DPGAN),
    Mistake("dpgan's grace period is one step too long", "methods/dpgan/loop.py", "grace = round(2 / (1 - beta), 6)", "grace = 2 / (1 - beta) + 1e-12", DPGAN),
    Mistake("dpgan's frequency falls back when the discriminator is good", "methods/dpgan/loop.py", "    larger = [n for n", "    if state.grace >= 20 and state.accuracy > config.accuracy_floor:\n        state.n_D = max(1, state.n_D // 2)\n    larger = [n for n", DPGAN),
    Mistake("dpgan's frequency rises when the discriminator is good", "methods/dpgan/loop.py", "state.accuracy <= config.accuracy_floor", "state.accuracy >= config.accuracy_floor", DPGAN),
    Mistake("the running accuracy weighs the last one by beta", "methods/dpgan/loop.py", "beta * state.accuracy + (1 - beta) * accuracy", "(1 - beta) * state.accuracy + beta * accuracy", DPGAN),
    Mistake("dpgan adapts though it was not asked to", "methods/dpgan/loop.py", "            if config.adaptive:", "            if True:", DPGAN),
    Mistake("division by B where records and fakes are 2 B", "methods/dpgan/loop.py", "g.div_(2 * B)", "g.div_(B)", DPGAN),
    Mistake("the fakes' gradients are not clipped", "methods/dpgan/loop.py", "bounds = Bounds(norms=(C if config.clip_fakes else math.inf,))", "bounds = Bounds(norms=(math.inf,))", DPGAN),
    Mistake("the non-private run is clipped", "methods/dpgan/loop.py", "clipped_to(config.max_norm, noise_multiplier=config.noise_multiplier)", "config.max_norm", DPGAN),
    Mistake("every non-private run is clipped", "privacy/mechanisms.py", "return max_norm if noise_multiplier > 0 else math.inf", "return max_norm", DPGAN),
    Mistake("fakes are taught as real", "methods/adversarial.py", "return F.softplus(discriminator(fakes.images, fakes.labels))", "return F.softplus(-discriminator(fakes.images, fakes.labels))", DPGAN),
    Mistake("the generator descends on log(1 - D), which saturates", "methods/adversarial.py", "return F.softplus(-logits).mean()", "return -F.softplus(logits).mean()", DPGAN),
    Mistake("the labels of fakes are permuted against their images", "methods/parts.py", "return Fakes(self.net(latents, labels), labels)", "return Fakes(self.net(latents, labels), labels.flip(0))", DPGAN),
    Mistake("labels of fakes are uniform, whatever the card declares", "methods/adversarial.py", "    if card.label_prior == \"uniform\":", "    if True:", DPGAN),
    Mistake("an average that never moves is accepted", "run/plan.py", "if (decay := float(settings.get(\"average_decay\", 0.0))) >= 1:", "if (decay := 0.0) >= 1:", DPGAN),
    Mistake("dpgan's generator steps at every step of the discriminator", "methods/dpgan/loop.py", "        if state.since >= state.n_D:  # l. 10", "        if True:  # l. 10", DPGAN),
    Mistake("the first moment of dpgan's optimisers has PyTorch's decay", "methods/dpgan/loop.py", "adam(rate, (0.5, 0.999))", "adam(rate, (0.9, 0.999))", DPGAN),
    Mistake("dpgan releases the last weights, not the average", "methods/dpgan/loop.py", "return self.G.average.released", "return self.G.net", DPGAN),
    Mistake("the average moves towards the old weights", "methods/parts.py", "mean.lerp_(value, 1 - min(at_most, self._decay))", "mean.lerp_(value, min(at_most, self._decay))", DPGAN),
    Mistake("after the warm start its moments go on", "methods/dpgan/loop.py", "    state.renew(config.discriminator_learning_rate, config.generator_learning_rate)\n", "", DPGAN),
    Mistake("the warm start adds up records and fakes without halving", "methods/dpgan/loop.py", "gradient(loss / 2, state.D.net)", "gradient(loss, state.D.net)", DPGAN),
    Mistake("an accuracy that never moves is accepted", "methods/dpgan/__init__.py", "if config.accuracy_decay >= 1:", "if False:", DPGAN),
    Mistake("a checkpoint ahead of the ledger is accepted", "run/checkpoint.py", "    if ledger.lines < saved[\"ledger_lines\"]:", "    if False:", "tests/run/test_resume.py"),
    Mistake("a checkpoint's discriminator begins with fresh moments", "methods/parts.py", "        self.net.load_state_dict(saved[\"net\"])\n        self.optimiser.load_state_dict(saved[\"optimiser\"])\n", "        self.net.load_state_dict(saved[\"net\"])\n", f"{CONFORMANCE}::test_resume_equals_an_unbroken_run_under_test_seeds"),
    Mistake("a checkpoint's generator begins with fresh moments", "methods/parts.py", "        self.average.load_state_dict(saved[\"average\"])\n        self.optimiser.load_state_dict(saved[\"optimiser\"])\n", "        self.average.load_state_dict(saved[\"average\"])\n", f"{CONFORMANCE}::test_resume_equals_an_unbroken_run_under_test_seeds"),
    Mistake("a checkpoint's average begins anew", "methods/parts.py", "        self.average.load_state_dict(saved[\"average\"])\n", "", f"{CONFORMANCE}::test_resume_equals_an_unbroken_run_under_test_seeds"),
    Mistake("a resume forgets how far it is from the next generator step", "methods/dpgan/loop.py", "    since: int = 0\n", "    since = 0\n", f"{CONFORMANCE}::test_resume_equals_an_unbroken_run_under_test_seeds"),
    Mistake("the average restarts with the untrained weights", "methods/parts.py", "            self._mean.load_state_dict(self._net.state_dict())\n", "            pass\n", f"{DPGAN}::test_the_warm_start_is_ordinary_training_on_public_records"),
    Mistake("a young average keeps the untrained weights", "methods/parts.py", "1 - min(at_most, self._decay)", "1 - self._decay", PARTS),
    Mistake("an average has the buffers of the start", "methods/parts.py", "            mine.copy_(theirs)\n", "            pass\n", PARTS),
    Mistake("a generator's step leaves its gradient on the discriminator", "methods/parts.py", "adversarial.descend(self.optimiser, loss, self.net)", "(self.optimiser.zero_grad(), loss.backward(), self.optimiser.step())", PARTS),
    Mistake("latents of a warm start move those of the training", "methods/parts.py", "run.rng.public(f\"{prefix}latents\")", "run.rng.public(\"latents\")", PARTS),
    Mistake("the driver does not count a step", "methods/method.py", "                state.step += 1\n", "                state.step += state.step == 0\n", METHOD),
    Mistake("the end of a phase is gone through twice after a resume", "methods/method.py", "            if following:  # before the next checkpoint: the end of a phase is not gone through twice\n                state.phase, state.step = following, 0\n            yield Reached(phase, done, None)\n", "            yield Reached(phase, done, None)\n            if following:\n                state.phase, state.step = following, 0\n", f"{METHOD}::test_a_run_goes_on_from_every_point_and_the_end_of_a_phase_is_gone_through_once"),
    Mistake("phases on public records are left out", "methods/method.py", "if public is not None or not isinstance(each, OnPublic)]", "if isinstance(each, OnPrivate)]", METHOD),
    Mistake("a resumed run begins with its first phase", "methods/method.py", "state.phase = state.phase or names[0]", "state.phase = names[0]", METHOD),
    Mistake("an untrained generator passes for a trained one", "methods/method.py", "saved[\"phase\"] == last.name and saved[\"step\"] > 0", "saved[\"phase\"] == last.name", METHOD),
    Mistake("a checkpoint's list of parts is not read", "methods/method.py", "return [_loaded(each, one) for each, one in zip(value, saved, strict=True)]", "return value", METHOD),
    Mistake("a checkpoint's parts are put in place of those that the optimisers move", "methods/method.py", "        value.load_state_dict(saved)\n        return value\n", "        value = __import__(\"copy\").deepcopy(value)\n        value.load_state_dict(saved)\n        return value\n", METHOD),
    Mistake("a plan holds the releases of the last phase alone", "methods/method.py", "for phase in self.phases(config, card) for", "for phase in self.phases(config, card)[-1:] for", METHOD),
    Mistake("settings that contradict each other are planned", "methods/method.py", "        self.check(config, card)\n", "", METHOD),
    Mistake("of a phase that releases as few events are kept as of another", "methods/method.py", "(400 if self.plan else 40)", "40", METHOD),
    Mistake("a plan loads PyTorch", "methods/dpgan/__init__.py", "from gossamer.lazy import Lazy\n", "from gossamer.lazy import Lazy\nimport torch\n", METHOD),
    Mistake("checkpoints can be read by everyone", "run/checkpoint.py", "private=True", "private=False", "tests/run/test_resume.py"),
    Mistake("a resume goes on with other records", "run/fit.py", "        if found.fingerprint != source_json[\"fingerprint\"]:", "        if False:", "tests/run/test_resume.py"),
    Mistake("a release copies the internal figures", "run/release.py", "    for name in RELEASED:", "    for name in (*RELEASED, *(n for n in (\"metrics.json\",) if (folder / n).exists())):", "tests/run/test_cli.py"),
    Mistake("what is released is not what was verified", "run/release.py", "        _must_hold(folder, verify(partial))", "        verify(partial)", f"{VERIFY}::test_what_is_handed_out_was_verified_as_it_lies_there"),
    Mistake("release --force replaces a RUN and its ledger", "run/release.py", "    if not is_release(target) or (target / PRIVATE).exists():", "    if not RunFolder(target).finished:", f"{VERIFY}::test_where_a_release_may_not_go"),
    Mistake("report makes a release poorer", "run/commands/verify.py", "    if checking.is_release(run):", "    if False:", f"{VERIFY}::test_the_report_of_a_release_is_not_rewritten"),
    Mistake("the internal report can be read by everyone", "run/report.py", "private=internal", "private=False", f"{VERIFY}::test_modes_do_not_depend_on_the_umask"),
    Mistake("metrics can be read by everyone", "run/evaluate.py", "json.dumps(entries, indent=2) + \"\\n\", private=True)", "json.dumps(entries, indent=2) + \"\\n\")", f"{VERIFY}::test_internal_figures_are_private_whatever_was_there"),
    Mistake("what attacks found can be read by everyone", "run/attack.py", "indent=2) + \"\\n\", private=True)", "indent=2) + \"\\n\")", f"{VERIFY}::test_internal_figures_are_private_whatever_was_there"),
    Mistake("the clocks of TensorBoard can be read by everyone", "run/sinks.py", "    folder.chmod(0o700)", "    folder.chmod(0o755)", f"{VERIFY}::test_the_clocks_of_tensorboard_stay_in_a_private_folder"),
    Mistake("the released settings name the private data", "run/fit.py", "        \"seed\": seed,\n", "        \"seed\": seed,\n        \"data\": sources.data,\n", "tests/run/test_cli.py"),
    Mistake("rows are not clipped", "privacy/engine/rounding.py", "BELOW * max_norm / norm, 1.0)", "1.0, 1.0)", ROWS),
    Mistake("a public share is a permutation of positions", "run/sources.py", "    public = given_up(records, share=share, salt=salt)\n", "    public = np.random.default_rng(0).permutation(records.population) < share * records.population\n", f"{SOURCES} {CONFORMANCE}::test_removing_a_protected_record_changes_no_public_record_and_no_public_draw"),
    Mistake("a side depends on the position", "data/identity.py", "_number(records.images[position].tobytes(), key", "_number(bytes([position % 256]) + records.images[position].tobytes(), key", f"{IDENTITY} {SOURCES}"),
    Mistake("a side depends on the label", "data/identity.py", "_number(records.images[position].tobytes(), key", "_number(bytes([int(records.labels[position])]) + records.images[position].tobytes(), key", IDENTITY),
    Mistake("a side depends on the rank of an id", "data/identity.py", "_number(name.encode(errors=\"surrogatepass\"), key, b\"unit\")", "_number(str(names.index(name)).encode(), key, b\"unit\")", f"{IDENTITY} {SOURCES}"),
    Mistake("sides are decided record by record, not unit by unit", "run/sources.py", "    public = given_up(records, share=share, salt=salt)\n", "    records = Records(records.images, records.labels)\n    public = given_up(records, share=share, salt=salt)\n", SOURCES),
    Mistake("the key of the public share comes from the records", "run/sources.py", "_split(records, self.share, SALT)", "_split(records, self.share, mark[:64])", SOURCES),
    Mistake("the settings hold the measured public share", "run/sources.py", "{\"kind\": \"share\", \"share\": self.share,", "{\"kind\": \"share\", \"share\": len(public) / len(records),", SOURCES),
    Mistake("the rate comes from the protected records that were counted", "run/fit.py", "        card = protected_part(card, public_share)\n", "        card = dataclasses.replace(card, declared_size=len(Sources.of(data, public=None, labels_key=labels_key, units=units, share=public_share).read(card).private))\n", SOURCES),
    Mistake("nobody protected is an error", "run/sources.py", "    if not public.any():", "    if not public.any() or public.all():", SOURCES),
    Mistake("the first paragraph does not name the unprotected", "privacy/promise.py", "        given_up = f\" NOT protected: {_given_up(settings)}.\"\n", "", SOURCES),
    Mistake("the private records pass for public ones", "run/sources.py", "        return Path(one).samefile(other)\n", "        return one == other\n", SOURCES),
    Mistake("a public record may be a private one", "run/sources.py", "        if share_a_picture(records, public):", "        if False:", SOURCES),
    Mistake("the refusal of a public record counts", "run/sources.py", "                \"--public: at least one of these pictures", "                f\"--public: {sum(image.tobytes() in {other.tobytes() for other in records.images} for image in public.images)}, at least one of these pictures", SOURCES),
    Mistake("a resume takes other public records", "run/fit.py", "        if found.public_facts != config_json[\"public\"]:", "        if False:", SOURCES),
    Mistake("units follow the order of the list", "data/units.py", "numbered([ids[name][0] for name in pictures]", "numbered([unit for unit, _ in ids.values()]", UNITS),
    Mistake("a folder's pictures take units from an array", "data/readers.py", "    if matched(spec) == \"position\":", "    if False:", UNITS),
    Mistake("a missing id is a unit of its own unasked", "data/units.py", "        if not name and missing == \"refuse\":", "        if False:", f"{UNITS} {SOURCES}"),
    Mistake("all missing ids are one unit", "data/units.py", "    numbers[alone] = len(found) + np.arange(alone.sum())", "    numbers[alone] = len(found)", UNITS),
    Mistake("a deep picture is scaled by its own extremes", "data/images.py", "    low, high = pixel_range\n", "    low, high = float(pixels.min()), float(pixels.max()) + 1\n", FORMATS),
    Mistake("a patient's name is read", "data/dicom.py", "specific_tags=_TAGS)", "specific_tags=None)", FORMATS),
    Mistake("a DICOM file's rescale is passed over", "data/dicom.py", "        pixels = pixels * np.float32(slope) + np.float32(intercept)\n", "        pixels = pixels * np.float32(slope)\n", FORMATS),
    Mistake("small values of MONOCHROME1 are black", "data/pictures.py", "        if found.inverted:\n", "        if False:\n", FORMATS),
    Mistake("one file under two names is two records", "data/pictures.py", "        if first is not path and status.st_ino:\n", "        if False:\n", FORMATS),
    Mistake("an orientation is passed over", "data/pictures.py", "            ImageOps.exif_transpose(picture, in_place=True)\n", "", FORMATS),
    Mistake("transparent pixels show what they hide", "data/pictures.py", "        page.paste(picture.convert(wanted), mask=picture.getchannel(\"A\"))\n", "        page.paste(picture.convert(wanted))\n", FORMATS),
    Mistake("a picture is decoded whatever it declares", "data/pictures.py", "            _check_size(*picture.size)\n", "", FORMATS),
    Mistake("every decoder of Pillow is tried", "data/pictures.py", "formats=_FORMATS) as picture", "formats=None) as picture", FORMATS),
    Mistake("what was converted is not said", "data/readers.py", "declared, tuple(sorted(decoder.notes)))", "declared, ())", FORMATS),
    Mistake("a missing label is the first class", "data/labels.py", "        return np.where(labels < 0, MISSING, labels), ()\n", "        return np.where(labels < 0, 0, labels), ()\n", FORMATS),
    Mistake("a unit without records still counts", "data/readers.py", "    there, units = np.unique(found.units, return_inverse=True)\n", "    there, units = np.arange(records.population), found.units\n", FORMATS),
    Mistake("names of the other split do not count", "data/labels.py", "    classes = tuple(sorted({*names, *others} - {\"\"}))\n", "    classes = tuple(sorted({*names} - {\"\"}))\n", FORMATS),
    Mistake("a list may lead out of its folder", "data/listed.py", "\"..\" in Path(name).parts", "False", FORMATS),
    Mistake("grey is the first colour", "data/images.py", "    return np.asarray(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).convert(\"L\"))[None]\n", "    return image[:1]\n", FORMATS),
    Mistake("data without labels need nobody's word", "data/readers.py", "    if asked.labels_key == NONE:\n        listing", "    if not any(each.is_dir() for each in path.iterdir()) or asked.labels_key == NONE:\n        listing", FORMATS),
    Mistake("a picture that is listed twice takes the last unit", "data/units.py", "        if whole in ids:", "        if False:", UNITS),
    Mistake("rows are not clipped in the secret draw alone", "privacy/rows.py", "return clipped(rows.flatten(0, 1), self.max_norm)", "return clipped(rows.flatten(0, 1), math.inf if self.draw == \"secret\" else self.max_norm)", ROWS),
    Mistake("rows are not clipped in the round_robin draw alone", "privacy/rows.py", "return clipped(rows.flatten(0, 1), self.max_norm)", "return clipped(rows.flatten(0, 1), math.inf if self.draw == \"round_robin\" else self.max_norm)", ROWS),
    Mistake("rows are not clipped in the paper draw alone", "privacy/rows.py", "return clipped(rows.flatten(0, 1), self.max_norm)", "return clipped(rows.flatten(0, 1), math.inf if self.draw == \"paper\" else self.max_norm)", ROWS),
    Mistake("the noise on rows is scaled to C instead of 2C", "privacy/rows.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * self.max_norm", ROWS),
    Mistake("the noise on rows is scaled to C in the secret draw alone", "privacy/rows.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * (1 if self.draw == \"secret\" else 2) * self.max_norm", ROWS),
    Mistake("the noise on rows is scaled to C in the round_robin draw alone", "privacy/rows.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * (1 if self.draw == \"round_robin\" else 2) * self.max_norm", ROWS),
    Mistake("the noise on rows is scaled to C in the paper draw alone", "privacy/rows.py", "self.noise_multiplier * 2 * self.max_norm", "self.noise_multiplier * (1 if self.draw == \"paper\" else 2) * self.max_norm", ROWS),
    Mistake("B rows are charged as one", "privacy/costs.py", "joint = noise_multiplier / math.sqrt(batch_size)", "joint = noise_multiplier", ROWS),
    Mistake("a critic is drawn by a public stream", "privacy/rows.py", "return int(self.rng.integers(1, self.critics)[0])", "return int(__import__(\"torch\").randint(self.critics, (1,), generator=self.rng.public(\"draw\"))) % max(1, self.critics - 1)", ROWS),
    Mistake("the draw depends on which critic trained", "methods/gs_wgan/panel.py", "        coins = secret_coins(self._run, chosen)", "        self._mechanism._coin = lambda: chosen[0]\n        coins = secret_coins(self._run, chosen)", f"{GS_WGAN}::test_in_the_secret_draw_training_does_not_look_at_the_draw"),
    Mistake("the critic that trains is the one that answered", "methods/gs_wgan/panel.py", "chosen, images = self._turns(), fakes", "chosen, images = [self._mechanism._coin()], fakes", f"{GS_WGAN}::test_in_the_secret_draw_training_does_not_look_at_the_draw"),
    Mistake("the plan forgets that a step asks several critics", "methods/gs_wgan/__init__.py", "steps=config.steps * config.answers,", "steps=config.steps,", GS_WGAN),
    Mistake("all answers of a call share one draw", "privacy/rows.py", "[self._answering(held) for _ in range(self.answers)]", "[self._answering(held)] * self.answers", ROWS),
    Mistake("answers of a call are drawn without replacement", "privacy/rows.py", "[self._answering(held) for _ in range(self.answers)]", "[self._answering(held) for _ in range(self.answers)] if self.draw != \"secret\" else (list(map(int, __import__(\"numpy\").random.default_rng().permutation(self.critics))) * self.answers)[: self.answers]", f"{ROWS}::test_answers_of_a_call_repeat_as_often_as_independent_draws_do"),
    Mistake("answers of a call are drawn without replacement where critics are many", "privacy/rows.py", "[self._answering(held) for _ in range(self.answers)]", "[self._answering(held) for _ in range(self.answers)] if self.draw != \"secret\" or self.critics < 2 * self.answers else (list(map(int, __import__(\"numpy\").random.default_rng().permutation(self.critics))) * self.answers)[: self.answers]", f"{ROWS}::test_answers_of_a_call_repeat_as_often_as_independent_draws_do"),
    Mistake("a call of several answers is charged as one", "privacy/rows.py", "ComposedDpEvent(each) if len(each) > 1 else each[0]", "each[0]", ROWS),
    Mistake("the ledger charges one part of a composed event", "privacy/ledger.py", "for part in event.events:", "for part in event.events[:1]:", ROWS),
    Mistake("a self-composition inside another is counted once", "privacy/accountants.py", "yield from _parts(event.event, event.count * count)", "yield from _parts(event.event, max(event.count, count))", ACCOUNTING),
    Mistake("a composition counts its parts once, however often it happens", "privacy/accountants.py", "            yield from _parts(part, count)", "            yield from _parts(part, 1)", ACCOUNTING),
    Mistake("every answer of the round robin is free", "privacy/rows.py", "return NoOpDpEvent() if within_a_pass else self.paid", "return NoOpDpEvent() if self.draw == \"round_robin\" else self.paid", ROWS),
    Mistake("a pass goes on after a crash", "privacy/rows.py", "given = passes * self.critics - ((self.critics - self._position) if self._position else 0)", "given = max(0, passes * self.critics - (self.critics - self._position))", ROWS),
    Mistake("answering writes the power iteration", "methods/gs_wgan/critics.py", "        net = self.layout.network(self.weights[which].to(images.dtype), self.directions[which].to(images.dtype))", "        self.directions[which] = self.layout.iterate(self.weights[which].float(), self.directions[which])\n        net = self.layout.network(self.weights[which].to(images.dtype), self.directions[which].to(images.dtype))", f"{GS_WGAN}::test_answering_is_read_only"),
    Mistake("all critics share one stream, which their shards move", "methods/gs_wgan/critics.py", "[torch.rand(turns, 3, M, generator=each, dtype=torch.float64) for each in coins]", "[(torch.rand(int(self.sizes[c]), generator=coins[0]), torch.rand(turns, 3, M, generator=coins[0], dtype=torch.float64))[1] for c in chosen]", f"{GS_WGAN}::test_a_changed_shard_moves_no_other_critic"),
    Mistake("one critic's norm divides the answers of its whole stack", "methods/gs_wgan/stacked.py", "matrix / norm[:, None, None]", "matrix / norm.max()", f"{GS_WGAN}::test_an_adversarial_critic_moves_no_other_answer_of_its_call"),
    Mistake("an empty shard is left out of its stack", "methods/gs_wgan/critics.py", "        which = torch.as_tensor(chosen)\n        holds", "        kept_in = [i for i, c in enumerate(chosen) if self.sizes[c]]\n        if not kept_in:\n            return\n        chosen, coins, fakes = [chosen[i] for i in kept_in], [coins[i] for i in kept_in], fakes[kept_in]\n        which = torch.as_tensor(chosen)\n        holds", f"{GS_WGAN}::test_a_changed_shard_moves_no_other_critic"),
    Mistake("shards are redrawn at a resume", "methods/gs_wgan/critics.py", "self._deal(saved[\"shards\"].numpy().copy())", "pass", f"{GS_WGAN}::test_shards_are_drawn_by_independent_coins_once_and_kept"),
    Mistake("shards of equal size", "methods/gs_wgan/loop.py", "run.rng.integers(units, config.critics) if sealed", "np.arange(units) % config.critics if sealed", f"{GS_WGAN}::test_shards_are_drawn_by_independent_coins_once_and_kept"),
    Mistake("a secret draw is amplified twice", "privacy/secret_draw.py", "grown = part + np.log(-np.expm1(-part)) - math.log(rate)", "grown = part + np.log(-np.expm1(-part)) - 2 * math.log(rate)", SECRET_DRAW),
    Mistake("the pair of a secret draw is cheaper in one order", "privacy/secret_draw.py", "below = above[1:] * np.exp(-losses[1:])", "below = above[1:] * np.exp(-2 * losses[1:])", SECRET_DRAW),
    Mistake("a cell of losses counts at its lower end", "privacy/secret_draw.py", "return rate * lower / math.expm1(grid), rate * upper / -math.expm1(-grid)", "return rate * (lower / math.expm1(grid) - upper / math.expm1(-grid)), 0 * upper", SECRET_DRAW),
    Mistake("a draw without replacement passes for add-or-remove-one", "privacy/accountants.py", "return relation is REPLACE_ONE or (relation is ADD_OR_REMOVE_ONE and drawn == 1)", "return True", "tests/privacy/test_accounting.py"),
    Mistake("gs-wgan releases the last weights, not the average", "methods/gs_wgan/loop.py", "return self.G.average.released", "return self.G.net", "tests/methods/test_release.py"),
    Mistake("gs-wgan's average keeps the untrained weights", "methods/gs_wgan/loop.py", "follow(at_most=1 - 1 / (state.step + 2))", "follow()", "tests/methods/test_release.py"),
    Mistake("gs-wgan's generator descends on its own score", "methods/gs_wgan/loop.py", "loss = (fakes.images[:n] * rows).sum() / n", "loss = -(fakes.images[:n] * rows).sum() / n", f"{GS_WGAN}::test_the_generator_descends_along_the_released_rows"),
    Mistake("a resumed warm start begins anew", "methods/gs_wgan/loop.py", "range(state.step, config.warm_visits)", "range(config.warm_visits)", f"{GS_WGAN}::test_the_warm_start_goes_on_in_the_middle_of_a_stack"),
    Mistake("the revealed draw is charged like a secret one", "privacy/costs.py", "else RevealedDrawGaussianDpEvent(critics, joint)", "else SampledWithoutReplacementDpEvent(critics, 1, GaussianDpEvent(joint))", ROWS),
    Mistake("the mixture forgets the busiest critics", "privacy/revealed.py", "int(law.isf(cut / 4))", "int(law.mean()) + 1", "tests/privacy/test_revealed.py"),
    Mistake("sealed critics can be read by everyone", "privacy/confined.py", "os.O_EXCL, 0o600)", "os.O_EXCL, 0o644)", f"{GS_WGAN}::test_a_sealed_file_is_private_complete_and_the_only_one"),
    Mistake("privgan takes a budget", "run/plan.py", "    if epsilon is not None or delta is not None:\n        named", "    if False:\n        named", "tests/methods/test_privgan.py"),
    Mistake("the wrong class may be the own", "methods/privgan/loop.py", "torch.randint(1, N,", "torch.randint(0, N,", "tests/methods/test_privgan.py"),
    Mistake("privgan counts the records before it declassifies them", "methods/privgan/loop.py", "    records = private.declassify(reason=REASON)\n", "    counted: list[int] = []\n    private.update(lambda held: counted.append(len(held)))\n    records = private.declassify(reason=REASON)\n", f"tests/methods/test_privgan.py {CONFORMANCE}"),
    Mistake("privgan reserves nothing", "methods/privgan/__init__.py", "self.training(steps, [(costs.without_privacy(), 1)])", "self.training(steps, [])", f"tests/methods/test_privgan.py {CONFORMANCE}"),
    Mistake("the privacy discriminator is released", "methods/privgan/loop.py", "for G in list(model.generators)[: self.count]]", "for G in [*list(model.generators)[: self.count], model.adversary.net]]", "tests/methods/test_privgan.py"),
    Mistake("the parts of privgan are not random", "methods/privgan/loop.py", "np.array_split(order, config.pairs)", "np.array_split(np.sort(order), config.pairs)", "tests/methods/test_privgan.py"),
    Mistake("the privacy discriminator does not rest", "methods/privgan/loop.py", "epoch >= config.adversary_delay_epochs", "epoch >= 0", "tests/methods/test_privgan.py"),
    Mistake("privgan's generators help the adversary", "methods/privgan/loop.py", "deceive + run.config.privacy_weight * mislead", "deceive - run.config.privacy_weight * mislead", "tests/methods/test_privgan.py"),
    Mistake("all of privgan's samples count as the first generator's", "methods/privgan/loop.py", "torch.full((len(each),), number, device", "torch.full((len(each),), 0, device", "tests/methods/test_privgan.py"),
    Mistake("equation 5 has the wrong sign", "methods/privgan/loop.py", "return -F.cross_entropy(answers, own)", "return F.cross_entropy(answers, own)", "tests/methods/test_privgan.py"),
    Mistake("records under attack are also held out", "run/attack.py", "_of_the_same(outside, first[half:], order)[:HELD_OUT]", "_of_the_same(outside, first, order)[:HELD_OUT]", "tests/run/test_attack.py"),
    Mistake("members may be attacked as non-members", "run/attack.py", "        if fingerprint(outside) == trained_on:", "        if False:", "tests/run/test_attack.py"),
    Mistake("GAN-Leaks accuses the records farthest from a sample", "attacks/distances.py", "        -nearest(inside, samples),\n        -nearest(outside, samples),", "        nearest(inside, samples),\n        nearest(outside, samples),", "tests/attacks/test_distances.py"),
    Mistake("the calibrated attack subtracts the other way round", "attacks/distances.py", "        nearest(inside, others) - nearest(inside, samples),\n        nearest(outside, others) - nearest(outside, samples),", "        nearest(inside, samples) - nearest(inside, others),\n        nearest(outside, samples) - nearest(outside, others),", "tests/attacks/test_distances.py"),
    Mistake("the interval of a share is one-sided", "intervals.py", "z = float(stats.norm.ppf(0.5 + level / 2))", "z = float(stats.norm.ppf(level))", "tests/metrics/test_classify.py"),
    Mistake("the interval of a mean is one-sided", "intervals.py", "stats.t.ppf(0.5 + level / 2, len(numbers) - 1)", "stats.t.ppf(level, len(numbers) - 1)", "tests/metrics/test_fidelity.py tests/metrics/test_classify.py"),
    Mistake("the Inception score is turned upside down", "metrics/fidelity.py", "math.exp(rel_entr(part, part.mean(axis=0)).sum(axis=1).mean())", "math.exp(-rel_entr(part, part.mean(axis=0)).sum(axis=1).mean())", "tests/metrics/test_fidelity.py"),
    Mistake("the Inception score takes the divergence the other way round", "metrics/fidelity.py", "rel_entr(part, part.mean(axis=0))", "rel_entr(part.mean(axis=0), part)", "tests/metrics/test_fidelity.py"),
    Mistake("the Frechet distance forgets the covariances", "metrics/fidelity.py", "float(apart @ apart + np.trace(A) + np.trace(B) - 2 * root)", "float(apart @ apart)", "tests/metrics/test_fidelity.py"),
    Mistake("precision and recall are swapped", "metrics/neighbours.py", "        precision=intervals.proportion(int((inside > 0).sum()), len(S), over_samples),\n        recall=intervals.proportion(int(resembled.sum()), len(R), over_records),", "        recall=intervals.proportion(int((inside > 0).sum()), len(S), over_samples),\n        precision=intervals.proportion(int(resembled.sum()), len(R), over_records),", "tests/metrics/test_neighbours.py"),
    Mistake("precision and recall are swapped in the table", "run/measures.py", "named.PRECISION.name: found.precision,\n        named.RECALL.name: found.recall", "named.PRECISION.name: found.recall,\n        named.RECALL.name: found.precision", "tests/run/test_measures.py"),
    Mistake("samples and records change places among neighbours", "run/measures.py", "        features(inputs.some(inputs.samples, NEIGHBOURS)), features(inputs.some(inputs.tests, NEIGHBOURS))", "        features(inputs.some(inputs.tests, NEIGHBOURS)), features(inputs.some(inputs.samples, NEIGHBOURS))", "tests/run/test_measures.py"),
    Mistake("accuracy is measured on the training samples", "metrics/classify.py", "(classifier.predict(test_images) == test_labels)", "(classifier.predict(train_images[: len(test_labels)]) == train_labels[: len(test_labels)])", "tests/metrics/test_classify.py"),
    Mistake("evaluate tests classifiers on the samples that trained them", "run/measures.py", "            records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,\n            protocol=protocol, seed=inputs.seed, trained_on=TRAINED_ON[figure.name]", "            records.images, records.labels, records.images, records.labels, classes=inputs.classes,\n            protocol=protocol, seed=inputs.seed, trained_on=TRAINED_ON[figure.name]", "tests/run/test_measures.py"),
    Mistake("the real-data baseline is trained on the test records", "run/measures.py", "lambda: of(named.BASELINE, inputs.real)", "lambda: of(named.BASELINE, inputs.tests)", "tests/run/test_measures.py"),
    Mistake("names of earlier versions are not read", "run/folder.py", "named.as_today(entry[\"metric\"])", "entry[\"metric\"]", "tests/run/test_compare.py tests/run/test_report.py"),
    Mistake("a sentence speaks of another figure", "run/named.py", "    \"Recall: {value} of the real records lie where samples lie ({range}). Low: kinds of records are missing.\",", "    \"Precision: {value} of the samples lie where real records lie ({range}). Low: unlike any record.\",", "tests/run/test_evaluate.py"),
    Mistake("evaluate takes the training records for the test records", "run/evaluate.py", "real=real, tests=tests,", "real=tests, tests=real,", "tests/run/test_measures.py"),
    Mistake("the classifier's epoch is chosen on what it trains on", "metrics/classify.py", "fit_on, choose_on = order[: len(order) - held], np.sort(order[len(order) - held :])", "fit_on, choose_on = order, np.sort(order[len(order) - held :])", "tests/metrics/test_classify.py"),
    Mistake("samples get other labels than they were made for", "methods/synthesizer.py", "Samples(pixels, chosen.numpy(), self.class_names)", "Samples(pixels, chosen.flip(0).numpy(), self.class_names)", "tests/methods/test_synthesizer.py"),
    Mistake("labels that were asked for are not those that are made", "methods/method.py", "return net(latents, labels), labels", "return net(latents, drawn), labels", "tests/methods/test_synthesizer.py"),
    Mistake("the seed of samples is ignored", "methods/synthesizer.py", "stream.seed() if seed is None else stream.manual_seed(seed)", "stream.seed()", "tests/methods/test_synthesizer.py"),
    Mistake("samples without a seed are always the same", "methods/synthesizer.py", "stream.seed() if seed is None else stream.manual_seed(seed)", "stream.manual_seed(seed or 0)", "tests/methods/test_synthesizer.py"),
    Mistake("every chunk of samples is the first one again", "methods/method.py", "latents = torch.randn(n, int(net.latent_size), generator=stream)", "latents = torch.randn(n, int(net.latent_size), generator=stream.manual_seed(stream.initial_seed()))", "tests/methods/test_synthesizer.py"),
    Mistake("a method's own way of sampling is passed over", "methods/method.py", "return self._method.sample(net, self._config", "return Method.sample(self._method, net, self._config", "tests/methods/test_synthesizer.py"),
    Mistake("an .npz of samples holds the first chunk's labels only", "data/writers.py", "labels.append(chunk.labels.astype(np.int64))", "labels.append(np.zeros_like(chunk.labels, dtype=np.int64) if labels else chunk.labels.astype(np.int64))", "tests/data/test_writers.py"),
    Mistake("a .csv of samples has no labels", "data/writers.py", "file.write(f\"{label},{name}", "file.write(f\"0,{name}", "tests/data/test_writers.py"),
    Mistake("pictures go into the folders of other labels", "data/writers.py", "names[label] if names else str(label)", "names[label] if names else str(max(label, highest))", "tests/data/test_writers.py"),
    Mistake("the declared size gives way to the number of records", "run/fit.py", "    request = plan(method, card, settings,", "    import numpy\n    card = dataclasses.replace(card, declared_size=len(numpy.load(str(data))[\"images\"]))\n    request = plan(method, card, settings,", "tests/run/test_declared.py"),
    Mistake("a preset is silently ignored", "run/plan.py", "chosen = dict(presets.settings(method, preset)) if preset else {}", "chosen: dict[str, Any] = {}", "tests/run/test_declared.py"),
    Mistake("the draws of a diffusion's record are clipped one by one", "methods/dp_diffusion/loop.py", "multiplicity=config.multiplicity\n", "multiplicity=1\n", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("the losses of a record's draws are added and not averaged", "methods/dp_diffusion/loop.py", "errors.flatten(1).mean(1) / K", "errors.flatten(1).mean(1)", DIFFUSION),
    Mistake("the latent of a diffusion is fitted on the records", "methods/dp_diffusion/loop.py", "        state.average.restart()\n        yield {\"released", "        private.update(lambda held: latent.fit(held.tensors()[0]))\n        state.average.restart()\n        yield {\"released", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("the mean of a diffusion's latent comes from the batch", "methods/dp_diffusion/loop.py", "        images, labels = records.tensors(next(denoiser.parameters()).device)\n", "        images, labels = records.tensors(next(denoiser.parameters()).device)\n        self.net.latent.centre.copy_(images.flatten(1).sum(0))\n", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("the sampler is fed by a private batch", "methods/dp_diffusion/loop.py", "        images, labels = records.tensors(next(denoiser.parameters()).device)\n", "        images, labels = records.tensors(next(denoiser.parameters()).device)\n        self.net.denoiser.waves.add_(images.sum())\n", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("the class moments and votes of a diffusion are not charged", "methods/dp_diffusion/__init__.py", "steps=1, plan=[(release, 1)], body=body)", "steps=1, body=body)", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("a diffusion's sum is divided by what was drawn", "methods/dp_diffusion/loop.py", "        state.D.step(g.div_(B))  # l. 9", "        private.update(lambda held: g.div_(len(held)))\n        state.D.step(g)", "tests/methods/test_conformance.py -k diffusion"),
    Mistake("Heun's second slope is that of the first point", "methods/dp_diffusion/sampler.py", "denoised(denoiser, config, there, following, labels)", "denoised(denoiser, config, x, now, labels)", DIFFUSION),
    Mistake("what a Gaussian expects leaves the noise out", "methods/class_moments.py", "(variance / (variance + level.square()))", "1.0", MOMENTS + " " + DIFFUSION),
    Mistake("guidance pulls away from the label", "methods/dp_diffusion/sampler.py", "known + config.guidance * (known - unknown)", "known - config.guidance * (known - unknown)", DIFFUSION),
    Mistake("the moments of a unit are shortened record by record", "methods/class_moments.py", "            own = self._sums(z, cells, torch.ones(len(z), dtype=z.dtype))\n            total += own * min(1.0, bound / float(own.norm()))", "            total += self._sums(z, cells, (bound / _lengths(z)).clamp(max=1))", MOMENTS),
    Mistake("a record's moments are not shortened to the bound", "methods/class_moments.py", "(bound / _lengths(z)).clamp(max=1))", "torch.ones(len(z), dtype=z.dtype))", MOMENTS),
    Mistake("a code is not shortened to the radius", "methods/class_moments.py", "return shortened(codes, self.reach) / self.reach, cells", "return codes / self.reach, cells", MOMENTS),
    Mistake("the moments of whole classes are not charged", "methods/moments/__init__.py", "            plan=[(first, 1)],\n", "", f"{CONFORMANCE} -k moments"),
    Mistake("the moments of whole classes have less noise than is charged", "methods/moments/loop.py", "private, first_noise(run.config))", "private, run.config.noise_multiplier)", f"{CONFORMANCE} -k moments"),
    Mistake("noise in a covariance is taken for signal", "methods/mixture.py", "apart[:, i, j].square() - noise[:, i, j]", "apart[:, i, j].square()", MIXTURE),
    Mistake("eigenvalues below the noise are seen", "methods/mixture.py", "values > max(edge, _FLOOR)", "values > _FLOOR", MIXTURE),
    Mistake("a cell of nobody is somewhere", "methods/mixture.py", "torch.where(self.seen[:, None], self.means, origin)", "self.means", MIXTURE),
    Mistake("cells count from nought", "methods/class_moments.py", "            codes = codes - self.centres.flatten(0, 1)[cells]\n", "", MOMENTS),
    Mistake("cells are those of another class", "methods/class_moments.py", "found[own] = label * self.cells + distances.argmin(1)", "found[own] = distances.argmin(1)", MOMENTS),
    Mistake("the nearest centre is found with rounding", "methods/class_moments.py", "along = 256 / 255 * (pixels(images).flatten(1) @ basis)", "along = (images.flatten(1) @ basis.float()).double()", MOMENTS),
    Mistake("codes are rounded by who stands beside them", "methods/class_moments.py", "copy.deepcopy(self.latent).double().code(images.double())", "self.latent.code(images).double()", MOMENTS),
    Mistake("products off the diagonal count once", "methods/class_moments.py", "c * products[i, j] * twice", "c * products[i, j]", MOMENTS),
    Mistake("the length of a record's moments leaves the covariance out", "methods/class_moments.py", "+ c**2 * squares.square()).sqrt()", ").sqrt()", MOMENTS),
    Mistake("eigenvalues below the noise stay", "methods/class_moments.py", "torch.where(values > max(edge, floor), values, floor)", "values.abs()", MOMENTS),
    Mistake("the row of the public records is that of the samples", "run/measures.py", "of(named.PUBLIC_ITSELF, inputs.public)", "of(named.PUBLIC_ITSELF, inputs.samples)", "tests/run/test_measures.py"),
    Mistake("a start that votes chose is called free", "run/training.py", "isinstance(reached.phase, OnPublic) and not any(run.ledger.used)", "isinstance(reached.phase, OnPublic)", "tests/run/test_sources.py -k votes"),
    Mistake("a crash after a one-shot release loses it", "run/training.py", "(full or stop or paid_for or clock.due())", "(full or stop or clock.due())", "tests/run/test_resume.py -k one_shot"),
    Mistake("a unit's votes are counted per record", "methods/votes.py", "clipped(rows, bounds.norms[0])", "rows", VOTES),
    Mistake("every record is a unit when votes are clipped", "methods/votes.py", "if records.units is None else torch.from_numpy(records.units)\n        pairs", "if True else torch.from_numpy(records.units)\n        pairs", VOTES),
    Mistake("votes are compared in single precision", "methods/votes.py", "values.double().nan_to_num", "values.float().nan_to_num", VOTES),
    Mistake("features are added up in single precision", "methods/evolve/nets.py", "        x = F.relu(on_grid(F.conv2d(pixels(images), *_exact(self.conv1), stride=2, padding=2)))\n        x = F.relu(on_grid(F.conv2d(x, *_exact(self.conv2), stride=2, padding=1))).flatten(1)\n        x = on_grid(F.linear(x, *_exact(self.hidden)))", "        x = F.relu(self.conv2(F.relu(self.conv1(images)))).flatten(1)\n        x = self.hidden(x)", VOTES),
    Mistake("a point that is not finite stays so", "methods/votes.py", ".nan_to_num(nan=0.0).clamp(-_REACH, _REACH)", "", VOTES),
    Mistake("a record votes for the nearest candidate of any class", "methods/votes.py", "torch.nonzero(self.labels == y)[:, 0], torch", "torch.arange(self.dimension), torch", VOTES),
    Mistake("the threshold is on raw votes", "methods/votes.py", "        return total\n\n    def _nearest", "        return (total - 2).clamp(min=0)\n\n    def _nearest", VOTES),
    Mistake("the threshold forgets the noise", "methods/votes.py", "votes - threshold * noise_multiplier * MAX_NORM", "votes - threshold * MAX_NORM", VOTES),
    Mistake("a class without votes is never drawn from", "methods/votes.py", "torch.where((sums > 0)[groups], weights.double() / sums[groups], 1 / counts[groups])[order]", "(weights.double() / sums[groups].clamp(min=1e-9))[order]", VOTES),
    Mistake("votes are of half the records and charged so", "methods/votes.py", "        sampling_rate=1.0,\n        max_norm", "        sampling_rate=0.5,\n        max_norm", VOTES),
    Mistake("the votes of class 0 leave without noise", "methods/evolve/loop.py", "        G.weights = votes.kept(h,", "        exact: list[Tensor] = []\n        private.update(lambda held: exact.append(query.clipped_sum(held, votes.Bounds(norms=(1.0,)))))\n        h = torch.where(G.labels == 0, exact[0], h)\n        G.weights = votes.kept(h,", CONFORMANCE),
    Mistake("class sizes are counted on records", "methods/evolve/loop.py", "    config, G = run.config, state.G\n    release", "    config, G = run.config, state.G\n    private.update(lambda held: G.labels.copy_(torch.from_numpy(held.labels)[torch.arange(len(G.labels)) * len(held) // len(G.labels)].sort().values) if len(held) else None)\n    release", f"{CONFORMANCE}::test_non_interference"),
    Mistake("evolve has as many candidates of each class, whatever the prior", "methods/evolve/nets.py", "round(candidates * card.classes * share)", "candidates", EVOLVE),
    Mistake("the embedding is scaled to records", "methods/evolve/loop.py", "    config, G = run.config, state.G\n    release", "    config, G = run.config, state.G\n    private.update(lambda held: setattr(state, \"embedding\", Cosines.of(held)) if len(held) else None)\n    release", EVOLVE),
    Mistake("evolve's plan holds one round", "methods/evolve/__init__.py", "[(release, config.steps)]", "[(release, 1)]", EVOLVE),
    Mistake("every round varies as far", "methods/evolve/loop.py", "config.shrink**state.step", "config.shrink**0", EVOLVE),
    Mistake("candidates are never varied", "methods/evolve/loop.py", "        if state.step:\n            G.parents", "        if False:\n            G.parents", EVOLVE),
    Mistake("the lookahead adds up", "methods/evolve/loop.py", "total / run.config.variations", "total", EVOLVE),
    Mistake("a choice is never made anew", "data/drawing.py", "torch.where(coin < degree,", "torch.where(coin < 0,", "tests/data/test_drawing.py"),
    Mistake("variations leave their range", "data/drawing.py", "(free + degree * spread * steps).clamp(low, high)", "(free + degree * spread * steps)", "tests/data/test_drawing.py"),
    Mistake("the teacher's releases are not charged", "methods/teacher/loop.py", "    while described.remaining(release.event):\n        g = described.release(release, gradient)", "    for _ in range(state.step, config.steps):\n        g = release(described._Confined__held, gradient)", f"{CONFORMANCE}::test_spends_its_plan"),
    Mistake("the teacher reserves half of its steps", "methods/teacher/__init__.py", "[(release, config.steps)]", "[(release, config.steps // 2)]", TEACHER),
    Mistake("the teacher's sums go past the mechanism", "methods/teacher/loop.py", "        norm = g.norm()\n", "        described.update(lambda held: g.add_(losses(W.net, held).detach().mean()))\n        norm = g.norm()\n", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the teacher starts from label frequencies counted on records", "methods/teacher/loop.py", "    described = private.map(lambda records: kept(W.net, records))", "    described = private.map(lambda records: kept(W.net, records))\n    private.update(lambda held: W.net.head.weight.data[:, -1].copy_(torch.from_numpy(held.labels).bincount(minlength=run.card.classes)))", f"{CONFORMANCE}::test_non_interference"),
    Mistake("the teacher's prior is that of its own labels", "methods/teacher/shapes.py", "adversarial.draw_labels(n, card, stream) if labels is None else labels", "net.probabilities(shapes(n, card.shape, stream)).argmax(1) if labels is None else labels", TEACHER),
    Mistake("the teacher gives other labels than those asked for", "methods/teacher/shapes.py", "adversarial.draw_labels(n, card, stream) if labels is None else labels", "adversarial.draw_labels(n, card, stream)", TEACHER),
    Mistake("the teacher's samples are any shapes", "methods/teacher/shapes.py", "images[picked(probabilities, wanted)], wanted", "images[:n], wanted", TEACHER),
    Mistake("a shape is taken for two samples", "methods/teacher/shapes.py", "positions[places], free[likeliest] = likeliest, False", "positions[places] = likeliest", TEACHER),
    Mistake("a class that is never named gets any shapes", "methods/teacher/shapes.py", "torch.where(free, probabilities[:, label], -1).argsort(descending=True)", "free.nonzero()[:, 0]", TEACHER),
    Mistake("the teacher's shapes come in the order of their kinds", "methods/teacher/shapes.py", "[torch.randperm(n, generator=stream)]", "", TEACHER),
    Mistake("the teacher's mean is over all steps", "methods/teacher/loop.py", "late = state.step + 1 - config.steps // 2", "late = state.step + 1", TEACHER),
    Mistake("the teacher releases the last weights", "methods/teacher/loop.py", "follow(at_most=1 - 1 / max(1, late))", "follow(at_most=0.0)", TEACHER),
    Mistake("the teacher divides by another batch than the expected one", "methods/teacher/loop.py", "W.step(g.div_(B))", "W.step(g.div_(4_096))", TEACHER),
    Mistake("the teacher forgets its momentum", "methods/teacher/loop.py", "momentum=config.momentum", "momentum=0.0", TEACHER),
    Mistake("a teacher without noise is clipped", "methods/teacher/loop.py", "clipped_to(config.max_norm, noise_multiplier=config.noise_multiplier)", "config.max_norm", TEACHER),
    Mistake("the teacher's step size does not look at the noise", "methods/teacher/__init__.py", "math.sqrt(config.steps) / config.noise_multiplier", "math.sqrt(config.steps)", TEACHER),
    Mistake("the teacher's step size ignores what is given", "methods/teacher/__init__.py", "    if config.learning_rate or not config.noise_multiplier:", "    if not config.noise_multiplier:", TEACHER),
    Mistake("the teacher takes 4,096 records where fewer are declared", "methods/method.py", "min(LARGEST_BATCH, card.declared_size)", "LARGEST_BATCH", TEACHER),
    Mistake("the teacher's score is of the likeliest label", "methods/teacher/loop.py", "return -losses(state.released, records)[None]", "return state.released.probabilities(records.tensors()[0]).amax(1).log()[None]", TEACHER),
    Mistake("features are normalised over the batch", "nets/scattering.py", "        return features\n", "        features[:, :-1] -= features[:, :-1].mean(0)\n        return features\n", f"{SCATTERING} {TEACHER}"),
    Mistake("features are not normalised", "nets/scattering.py", "normalised(self.coefficients(images[i].clone()), self.group).flatten()", "self.coefficients(images[i].clone()).flatten()", SCATTERING),
    Mistake("wavelets let the mean through", "nets/scattering.py", "wave - envelope * (wave.sum() / envelope.sum())", "wave", SCATTERING),
    Mistake("wavelets are turned the other way", "nets/scattering.py", "along = x * math.cos(angle) + y[:, None]", "along = x * math.cos(angle) - y[:, None]", SCATTERING),
    Mistake("wavelets are longer along their wave than across", "nets/scattering.py", "along**2 + (_SLANT * across) ** 2", "(_SLANT * along) ** 2 + across**2", SCATTERING),
    Mistake("a second wavelet may be as fine as the first", "nets/scattering.py", "self.psi[j + 1 :]", "self.psi[j : self.scales - 1]", SCATTERING),
    Mistake("averages are taken from the first pixel on", "nets/scattering.py", "torch.arange(2 ** (scales - 1), side, 2**scales)", "torch.arange(0, side, 2**scales)", SCATTERING),
    Mistake("the second modulus is left out", "nets/scattering.py", "orders.append(modulus(spectrum * self.psi[j + 1 :]).flatten(1, 3))", "orders.append(torch.fft.ifft2(spectrum * self.psi[j + 1 :]).real.flatten(1, 3))", SCATTERING),
    Mistake("a full disk loses what was trained", "run/training.py", "    checkpoint.give_room(run.folder.private)\n    try:\n        save()\n", "    try:\n        save()\n", "tests/run/test_full_disk.py -k loses_nothing"),
    Mistake("no room is kept before the first checkpoint", "run/training.py", "    checkpoint.keep_room(run.folder.private, room.state(training.state.released))\n", "", "tests/run/test_full_disk.py -k one_release"),
    Mistake("a full disk under the events stops within a block", "run/training.py", "                    full = is_full(error)  # to the end of the block, as after Ctrl-C: what is paid for is used\n                    if not full:\n                        raise", "                    raise", "tests/run/test_full_disk.py -k events"),
    Mistake("room is not asked for before a run", "run/room.py", "    if free < needed:", "    if False:", "tests/run/test_full_disk.py -k without_room"),
    Mistake("half a sealed file stays", "privacy/confined.py", "                path.unlink(missing_ok=True)\n", "", "tests/run/test_full_disk.py -k sealed"),
    Mistake("a clearer run says what to expect at least", "run/measured.py", "if run.clearness <= NEAR * here)", "if run.clearness)", "tests/run/test_measured.py"),
    Mistake("what was measured without privacy speaks for private runs", "run/measured.py", " and math.isinf(run.epsilon) == math.isinf(epsilon)]", "]", "tests/run/test_measured.py"),
    Mistake("records are counted without their epsilon", "run/measured.py", "records * (1.0 if math.isinf(epsilon) else mu(epsilon, delta))", "records * 1.0", "tests/run/test_measured.py"),
    Mistake("runs with public records are recommended to those who have none", "run/recommend.py", " if not run.public or (public is not None and method.takes_public)]", "]", "tests/run/test_recommend.py -k every_method_is_ranked"),
    Mistake("critics are not scaled to the records", "run/presets.py", "for name in in_proportion if name in chosen}", "for name in in_proportion if False}", "tests/run/test_recommend.py -k stays_at_one"),
    Mistake("text passes for a number", "run/arguments.py", "        return isinstance(value, number) and not isinstance(value, bool)", "        return True", "tests/run/test_arguments.py -k wrong_type"),
    Mistake("class folders are numbered by position whatever the card names", "data/readers.py", "        return replace(records, labels=classes.matched(records.labels, found, declared, where=source))\n", "        pass\n", f"{NASTY}::test_an_npz_may_name_its_classes {NASTY}::test_a_class_that_the_card_does_not_name_is_refused_by_name"),
    Mistake("a class that is not declared passes for the last one", "data/classes.py", "    if unknown.any():", "    if False:", FORM),
    Mistake("how an accent is composed counts", "data/classes.py", "return unicodedata.normalize(\"NFC\", name)", "return name", FORM),
    Mistake("samples carry no names", "methods/synthesizer.py", "return self.card.class_names if self.classes == self.card.classes else ()", "return ()", f"{NASTY}::test_names_go_from_the_folders_to_all_that_is_handed_out"),
    Mistake("the certificate does not say that names are public", "privacy/promise.py", "    if names:\n        facts.append(", "    if names:\n        str(", f"{NASTY}::test_names_go_from_the_folders_to_all_that_is_handed_out"),
    Mistake("a run may take the place of a release", "run/folder.py", "if self.file(SUMS).exists():", "if False:", "tests/run/test_cli.py::test_the_whole_way"),
    Mistake("the ground of the private records is written into the run", "run/fit.py", 'folder.create({**config_json, "run": run,', 'ground = "" if found.public is None else contrast("--data", found.private, "--public", found.public)\n            folder.create({**config_json, "ground": ground, "run": run,', f"{NASTY}::test_ink_on_white_is_said_and_inverted_everywhere"),
    Mistake("digits and glyphs are inverted too", "data/readers.py", "invert and name not in EMBEDDED", "invert", f"{NASTY}::test_digits_and_glyphs_stay_white_on_black"),
    Mistake("bars are white where the card inverts", "data/images.py", "        upright = 255 - images if self.invert else images\n        return upright if self.shape is None else resize(upright, self.shape, how=self.resize)", "        shown = images if self.shape is None else resize(images, self.shape, how=self.resize)\n        return 255 - shown if self.invert else shown", FORM),
    Mistake("crop cuts a corner out", "data/images.py", "return (across, down, wide - across, high - down), (0, 0, height, width)", "return (0.0, 0.0, wide - 2 * across, high - 2 * down), (0, 0, height, width)", FORM),
    Mistake("a split shuffles, and whoever leaves moves the others", "run/split.py", "    test = dealer.test(names, lambda at: records.images[at])\n", "    test = np.random.default_rng(0).random(len(names)) < dealer.share\n", f"{NASTY}::test_whoever_leaves_moves_nobody_else"),
    Mistake("a split of arrays deals records, not units", "run/split.py", "        names = records.names[records.units].tolist()\n", "        pass\n", f"{NASTY}::test_a_split_of_arrays_keeps_units_and_names"),
    Mistake("a split has one key whatever its seed", "run/split.py", "f\"gossamer split {seed}\"", "\"gossamer split\"", f"{NASTY}::test_split_deals_whole_units_and_replaces_nothing"),
    Mistake("all records of a unit take part in an attack", "run/attack.py", "    if records.units is None:\n        return order\n", "    return order\n", ATTACK_UNITS),
    Mistake("held-out records are of units that take part", "run/attack.py", "order[np.isin(records.units[order], records.units[some])]", "order", ATTACK_UNITS),
    Mistake("the control scores pictures that it learnt", "attacks/control.py", "rows[: len(rows) // 2] for rows in sets", "rows for rows in sets", "tests/attacks/test_control.py"),
    Mistake("the control is silent", "run/words.py", "    if told_apart.low > 0.5:", "    if False:", f"{NASTY}::test_other_writers_are_told_from_members_by_whoever_never_saw_the_run"),
    Mistake("plan lets any shape pass", "run/plan.py", "    makes_pictures(trial)\n", "", f"{NASTY}::test_a_shape_that_no_net_makes_is_refused_before_anything_is_written"),
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
