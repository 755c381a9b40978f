"""A Flower app that trains with Gossamer: docs/federated.md."""
