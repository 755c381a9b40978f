"""Federated GS-WGAN: the same as the central loop, two guarantees, and what clients and server refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `federated` is not installed")
