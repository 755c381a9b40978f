"""Where randomness comes from: secret noise and coins, and the public streams that a seed fixes.

Three kinds of draw, never mixed:

- `add_gaussian_` and `poisson_sample` (and `secret`): the keystream of AES-128 in counter mode under a key of
  operating-system entropy. What the guarantee rests on.
- `public(name)`: seeded torch generators, one per name, for initialisation, latents and labels: draws whose place in the
  stream no record can change.
- With a fixed `noise_seed` the secret draws repeat. For tests only: the run is then reproducible, and not private.
"""
