"""Records that never leave their owners: GS-WGAN with many clients (Chen, Orekondy, Fritz 2020, sections 4 and 5.4).

Few sites answer noisy sums of other methods (`centre.py`, `site.py`).
"""

METHOD = "gs-wgan"
"""What many clients train."""
