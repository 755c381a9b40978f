# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # A notebook: from a table to a signed release
#
# This page is for data owners and engineers who hold a DataFrame. You end with a signed folder that may leave your institution.
#
# The notebook is the text file [`examples/table_to_release.py`](table_to_release.py). Jupytext opens it in Jupyter, and Python
# runs it as a script. It needs pandas.

# %%
import tempfile
from dataclasses import replace
from pathlib import Path

from sklearn.datasets import load_breast_cancer

import gossamer

# %% [markdown]
# ## Bring your records
#
# scikit-learn's measurements of tumours play the private records. Keep some rows out of training: they judge the samples later.

# %%
source = load_breast_cancer(as_frame=True)
frame = source.frame[["mean radius", "mean texture", "mean smoothness"]].round(4)
frame["diagnosis"] = source.target.map({0: "malignant", 1: "benign"})
frame = frame.sample(frac=1, random_state=0, ignore_index=True)
train, test = frame[:400], frame[400:]
train.head(3)

# %% [markdown]
# ## Declare what may be public
#
# Gossamer drafts a [card](../docs/data.md#write-the-card-of-a-table). Measured bounds do not count yet: a measured bound is the
# value of one person. Declare what is known without the records, such as what an instrument can show.

# %%
draft = gossamer.draft_card(train)
draft.measured

# %%
draft = draft.with_column("mean radius", bounds=(5, 30))
draft = draft.with_column("mean texture", bounds=(5, 45))
draft = draft.with_column("mean smoothness", bounds=(0, 0.2))
draft = draft.with_column("diagnosis", values=("benign", "malignant"))
card = replace(draft.declared(), declared_size=400, label="diagnosis", title="Tumours", data_set="tumours")

# %% [markdown]
# ## See the cost first
#
# `plan` reads no record. It computes the guarantee that a run would have.

# %%
print(gossamer.plan("marginals", card, epsilon=3, delta=1e-4).promise)

# %% [markdown]
# ## Train
#
# These rows are public, so the run stays out of your [budget log](../docs/budgets.md). For your own records, leave
# `public_test_data` out, and [choose epsilon](../docs/choosing-epsilon.md) first.

# %%
folder = Path(tempfile.mkdtemp())  # for your own runs, name a private folder that stays
synthesizer = gossamer.fit(
    "marginals",
    data=gossamer.Source(train, public_test_data=True),
    card=card,
    epsilon=3,
    delta=1e-4,
    out=folder / "run",
)

# %% [markdown]
# ## Look at the samples
#
# Samples use no more privacy budget. You can also ask for rows that meet conditions.

# %%
samples = synthesizer.sample(1_000, seed=0)
samples.to_pandas().head(5)

# %%
synthesizer.sample(3, where={"diagnosis": "malignant", "mean radius": (20, 30)}, seed=0).to_pandas()

# %% [markdown]
# ## Judge them
#
# A model is trained on samples and tested on real rows. Another model is trained on the real rows.

# %%
evaluation = gossamer.evaluate(folder / "run", train=train, test=test, count=1_000, metrics="accuracy")
evaluation.to_frame()[["metric", "value", "low", "high"]]

# %% [markdown]
# These are private figures. Do not publish them, and do not use them to pick between runs: no guarantee covers this.

# %% [markdown]
# ## Release, sign and verify
#
# A release holds what may leave, and nothing else. Recipients make the last check, with the public key that you gave them by a
# way that they trust.

# %%
release = gossamer.release(folder / "run", folder / "release", samples=1_000)
public_key = gossamer.sign(release, key=folder / "key.pem", new_key=True)
verdict = gossamer.verify(release, key=public_key)
print(*sorted(path.name for path in release.iterdir()), sep="\n")
print("verified:", verdict.ok)
