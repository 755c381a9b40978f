"""A Flower app that trains GS-WGAN with Gossamer: docs/federated.md."""
