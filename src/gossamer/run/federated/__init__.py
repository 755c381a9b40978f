"""Federated GS-WGAN over Flower: records never leave their owner (Chen, Orekondy, Fritz 2020, sections 4 and 5.4)."""

METHOD = "gs-wgan"
"""What the sites train."""
