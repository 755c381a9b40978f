"""Recompute the promise of a Gossamer release from its ledger, without Gossamer: python check_release.py RELEASE

Needs dp_accounting 0.6 (pip install "dp-accounting>=0.6,<0.7"). Checks the chain of the ledger, that it never paid for more
than it had reserved, that settings and model are the pinned ones, and that the certificate states no smaller epsilon, and no
other delta, relation, unit or plan. It cannot see whether the settings lead to the plan (`gossamer verify` does), nor whether
the program that wrote the ledger trained this model and added the noise. Exit status 0: all holds; 1: something does not.
"""

import hashlib
import json
import math
import sys
from pathlib import Path

import dp_accounting as dp
import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom


def demand(holds, complaint):
    if not holds:
        raise ValueError(complaint)


def once(pairs):
    """A JSON object in which no entry stands twice: people would read the first one, programs the last."""
    demand(len(dict(pairs)) == len(pairs), "an entry stands there twice")
    return dict(pairs)


def read_ledger(name, lines):
    """The opening, the reserved plan as [[event, count]], reasons why nothing is promised, sites, lines, last hash."""
    opening, plan, charged, reasons, sites, last, number = None, [], [], [], {}, "0" * 32, 0
    for number, text in enumerate(lines.splitlines(), start=1):
        where, line = f"{name}, line {number}", json.loads(text, object_pairs_hook=once)
        stated = line.pop("hash")
        # Each line has the first 32 digits of SHA-256(hash of the line before + the line without its hash, keys sorted).
        last = hashlib.sha256((last + json.dumps(line, sort_keys=True)).encode()).hexdigest()[:32]
        demand(stated == last, f"{where}: the chain of hashes is broken")
        ((kind, value),) = line.items()
        demand((kind == "open") == (number == 1), f"{where}: the first line opens a ledger, and no other")
        if kind == "open":
            opening = value
        elif kind == "reserve":  # before a record is read: what may be released, and how often
            for entry in value:
                demand(type(entry["count"]) is int and entry["count"] > 0, f"{where}: a count that is none")
                demand(entry["event"] not in [event for event, _ in plan], f"{where}: an event reserved twice")
                plan.append([entry["event"], entry["count"]])
                charged.append(0)
        elif kind == "charge":  # one release, by the number of its event; written before its noise is drawn
            demand(value >= 0 and charged[value] < plan[value][1], f"{where}: more releases than were reserved")
            charged[value] += 1
        elif kind == "declassify":  # something left without noise
            reasons.append(value)
        elif kind == "site":  # at the centre of a federation: the ledger that a site has shown
            sites[value["name"]] = value
        else:  # a tie to the owner's budget log; a newer version of the noise; a GPU and the checks that it passed; an answer
            demand(kind in ("session", "noise", "device", "look", "score"), f"{where}: unknown")
    return opening, plan, reasons, sites, number, last


def event_of(event):
    """An event of the ledger in the vocabulary of dp_accounting."""
    match event:
        case {"event": "Gaussian", "noise_multiplier": s}:
            return dp.GaussianDpEvent(s)
        case {"event": "PoissonSampled", "sampling_rate": q, "of": of}:
            return dp.PoissonSampledDpEvent(q, event_of(of))
        case {"event": "SampledWithoutReplacement", "population": k, "drawn": 1, "of": of}:
            return dp.SampledWithoutReplacementDpEvent(k, 1, event_of(of))
    raise ValueError(f"this script cannot bound {event}")


def bounds(plan, delta, relation):
    """What the whole reserved plan costs, by name; each figure is an upper bound on epsilon."""
    noises = [event.get("of", event).get("noise_multiplier", 0) for event, _ in plan]
    if not all(noise > 0 for noise in noises):
        return {"no noise": math.inf}
    # The noise of a plain Gaussian is measured against one record more or fewer: to exchange one may move a sum twice as far.
    fit = {"REPLACE" if event["event"] == "SampledWithoutReplacement" else "ADD_OR_REMOVE" for event, _ in plan}
    demand(fit == {relation.name.removesuffix("_ONE")}, f"this script cannot bound this plan under {relation.name}")
    (first, count), s, k = plan[0], noises[0], plan[0][0].get("population")
    if first["event"] == "RevealedDrawGaussian" and len(plan) == 1:
        return {"revealed draw": revealed_epsilon(k, first["noise_multiplier"], count, delta)}
    steps = dp.ComposedDpEvent([dp.SelfComposedDpEvent(event_of(event), times) for event, times in plan])
    rdp = dp.rdp.RdpAccountant(neighboring_relation=relation).compose(steps)  # Mironov, Talwar, Zhang 2019
    left = delta - 2.0**-52 * sum(times for _, times in plan)  # a Fourier transform to a power is rounded
    if first["event"] == "SampledWithoutReplacement" and len(plan) == 1:
        pld = secret_draw(1 / k, s, min(1e-4, 1 / (20 * k * s))).self_compose(count)
        return {"PLD": pld.get_epsilon_for_delta(left), "RDP": rdp.get_epsilon(delta)}
    grid = min(1e-4, min(event.get("sampling_rate", 1) for event, _ in plan) / (4 * max(noises)))
    pld = dp.pld.PLDAccountant(relation, value_discretization_interval=grid).compose(steps)  # Doroshenko et al. 2022
    return {"PLD": pld.get_epsilon(left), "RDP": rdp.get_epsilon(delta)}


def secret_draw(q, s, grid):
    """Losses where one of K = 1/q parts, drawn in secret, answers with noise s: a dominating pair (Zhu, Dong, Wang 2022).

    Balle, Barthe, Gaboardi 2018, theorem 2, with joint convexity: for gamma >= 1 and gamma' = 1 + (gamma - 1)/q,
    H_gamma <= q H_gamma'(N(1, s^2) || N(0, s^2)). That is also the curve of Poisson sampling where the record is removed, so
    the losses above 0 are those; it holds in both orders, so those below 0 mirror them: P(-l) = exp(-l) P(l).
    """
    losses, pmf = dp.pld.privacy_loss_distribution, dp.pld.pld_pmf.DensePLDPmf
    removed = losses.from_gaussian_mechanism(s, value_discretization_interval=grid, sampling_prob=q)._pmf_remove
    dense, lost = removed.to_dense_pmf(), removed._infinity_mass
    above = dense._probs[1 - dense._lower_loss :]
    below = above * np.exp(-grid * np.arange(1, len(above) + 1))
    both = np.concatenate([below[::-1], [1 - lost - above.sum() - below.sum()], above])
    return losses.PrivacyLossDistribution(pmf(grid, -len(above), both, lost, True))


def revealed_epsilon(k, s, count, delta):
    """One of k parts answers, all see which: n ~ Binomial(count, 1/k) Gaussians (Balle and Wang 2018, theorem 8)."""
    law = binom(count, 1 / k)
    n = np.arange(1, law.isf(delta / 1e4) + 1)
    mu, p, lost = np.sqrt(n) / s, law.pmf(n), law.sf(n[-1])
    return brentq(lambda e: p @ (ndtr(mu / 2 - e / mu) - np.exp(e + log_ndtr(-mu / 2 - e / mu))) + lost - delta, 0, 1e6)


def check_sites(folder, terms, plan, noted):
    """At the centre of a federation: each site's ledger reserves the same plan on the same terms, and is the one noted."""
    shown = json.loads((folder / "sites.json").read_text(encoding="utf-8"), object_pairs_hook=once)
    demand(set(shown) == set(noted), "sites.json names other sites than the ledger")
    for name, text in shown.items():
        own, own_plan, reasons, _, lines, last = read_ledger(name, text)
        same = (own["delta"], own["relation"], own["unit"], own_plan) == (*terms, plan)
        demand(same and not reasons, f"the ledger of {name} does not reserve this plan")
        demand(
            (lines, last) == (noted[name]["lines"], noted[name]["last_hash"]), f"the ledger of {name} is not that noted"
        )
    print(f"{folder}: the ledgers of {', '.join(shown)} reserve the same plan.")


def check(folder):
    opening, plan, reasons, sites, lines, last = read_ledger(
        "ledger.jsonl", (folder / "ledger.jsonl").read_text(encoding="utf-8")
    )
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"), object_pairs_hook=once)
    delta, relation, unit = terms = opening["delta"], opening["relation"], opening["unit"]
    neighbours = dp.NeighboringRelation[relation.upper().replace("-", "_")]
    found = {"no guarantee": math.inf} if reasons else bounds(plan, delta, neighbours)
    for name, epsilon in found.items():
        print(f"{name}: epsilon {epsilon:.6f} at delta {delta:g}, {relation} {unit}")
    for entry in (certificate["guarantee"], *certificate["guarantees"]):
        stated, least = float(entry["epsilon"]), min(found.values())
        demand(stated >= least * (1 - 1e-6), f"the certificate says epsilon {stated}, the ledger costs {least}")
        demand((entry["delta"], entry["relation"], entry["unit"]) == terms, f"the ledger promises under {terms}")
    stated, promise = float(certificate["guarantee"]["epsilon"]), "No formal guarantee: epsilon is infinity"
    if math.isfinite(stated):
        shown = math.ceil(round(stated * 1000, 6)) / 1000
        promise = f"Differentially private: epsilon {shown:.3f} at delta {delta:g}, {relation} {unit}."
    demand(certificate["statement"].startswith(promise), f"the statement does not begin with: {promise}")
    demand([[each["event"], each["count"]] for each in certificate["plan"]] == plan, "the certificate has another plan")
    pinned = {"file": "ledger.jsonl", "lines": lines, "last_hash": last}
    demand(certificate["ledger"] == pinned, "the certificate pins another ledger")
    for name, digest in (("model.safetensors", certificate["model"]["sha256"]), ("config.json", opening["settings"])):
        same = hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        demand(same, f"{name} is not the file that was pinned (its SHA-256 differs)")
    if sites:
        check_sites(folder, terms, plan, sites)
    print(f"{folder}: chain of {lines:,} lines, plan, promise, settings and model agree.")


if __name__ == "__main__":
    try:
        check(Path(sys.argv[1]))
    except Exception as error:  # whatever it is: what cannot be read is not confirmed
        sys.exit(f"NOT confirmed: {type(error).__name__}: {error}")
