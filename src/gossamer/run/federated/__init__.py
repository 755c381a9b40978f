"""Records that never leave their owners: GS-WGAN with many clients (Chen, Orekondy, Fritz 2020, sections 4 and 5.4), and
methods that ask noisy sums with few sites (`centre.py`, `site.py`).
"""

METHOD = "gs-wgan"
"""What many clients train."""
