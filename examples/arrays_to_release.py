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
# # A notebook: from arrays to a signed release
#
# This page is for data owners and engineers who work in notebooks. You start with NumPy arrays. You end with a signed folder
# that may leave your institution.
#
# The notebook is the text file [`examples/arrays_to_release.py`](arrays_to_release.py). Jupytext opens it in Jupyter, and
# Python runs it as a script. It needs pandas.

# %%
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits

import gossamer

# %% [markdown]
# ## Bring your records
#
# scikit-learn's handwritten digits play the private records. Keep some records out of training: they judge the samples later.

# %%
digits = load_digits()
images, labels = digits.images / 16, digits.target  # images [N, H, W] from 0 to 1, labels [N]
train = images[:1_400], labels[:1_400]
test = images[1_400:], labels[1_400:]
images.shape, labels.shape

# %% [markdown]
# ## Declare what may be public
#
# A data card holds the public facts about your records. Gossamer drafts a card for you. The draft is measured on the records,
# so nothing in it is public yet.

# %%
draft = gossamer.draft_card(train)

# %% [markdown]
# Check every value, then write your own card. Recipients see all of it. `shape` is the size of the samples: channels, height
# and width. The name `data_set` lets the [budget log](../docs/budgets.md) recognise your records. Small pictures keep this
# notebook quick.

# %%
card = gossamer.DataCard(
    shape=(1, 16, 16),
    classes=10,
    declared_size=1_400,
    title="Handwritten digits",
    data_set="scikit-learn digits",
)

# %% [markdown]
# ## See the cost first
#
# `plan` reads no record. It computes the guarantee that a run would have, and the noise that each guarantee needs.

# %%
for epsilon in (1, 10):
    request = gossamer.plan("moments", card, epsilon=epsilon, delta=1e-4)
    print(f"{request.promise}: noise multiplier {request.job.config.noise_multiplier:.2f}")

# %% [markdown]
# ## Train
#
# Epsilon 10 is for a first try. For records of people, [choose a smaller epsilon](../docs/choosing-epsilon.md). These digits
# are public, so the run stays out of your budget log. Leave `public_test_data` out for your own records.

# %%
folder = Path(tempfile.mkdtemp())  # for your own runs, name a private folder that stays
synthesizer = gossamer.fit(
    "moments", data=gossamer.Source(train, public_test_data=True), card=card, epsilon=10, delta=1e-4, out=folder / "run"
)

# %% [markdown]
# ## Look at the samples
#
# The result shows itself: some samples of each class, then the certificate.

# %%
synthesizer

# %% [markdown]
# Samples use no more privacy budget. Draw as many as you need, of any class.

# %%
samples = synthesizer.sample(1_000, seed=0)
samples.to_pandas()

# %% [markdown]
# ## Judge them
#
# A classifier is trained on samples and tested on real records. Another classifier is trained on the real records. The
# protocol `reduced` trains each for four epochs only, so take the figures as an example.

# %%
evaluation = gossamer.evaluate(
    folder / "run", train=train, test=test, count=1_400, metrics=gossamer.metrics.Measures(protocol="reduced")
)
evaluation.to_frame()[["metric", "value", "low", "high"]]

# %% [markdown]
# These are private figures. Do not publish them, and do not use them to pick between runs: no guarantee covers this.

# %% [markdown]
# ## Release and sign
#
# A release holds what may leave, and nothing else. Your signature shows that you vouch for it. The private key stays outside
# the release.

# %%
release = gossamer.release(folder / "run", folder / "release", samples=1_000)
public_key = gossamer.sign(release, key=folder / "key.pem", new_key=True)
print(*sorted(path.name for path in release.iterdir()), sep="\n")

# %% [markdown]
# ## Verify
#
# Give recipients the public key by a way that they trust. Recipients make the same check. `verify` recomputes epsilon from the
# ledger, and compares all files with the signature.

# %%
verdict = gossamer.verify(release, key=public_key)
print("verified:", verdict.ok)
verdict
