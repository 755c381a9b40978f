"""Programs that measure Gossamer. They are run from a checkout; the wheel does not have them."""
