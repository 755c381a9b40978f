"""Describe the processor and the software of a cell: enough to repeat it, and no name of a machine or of a person."""

import importlib.metadata
import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

import gossamer
from gossamer.run.storage.versions import versions


def machine(device: str) -> dict[str, Any]:
    """Processor, cores and threads."""
    known: dict[str, Any] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "device": device,
    }
    return known | ({"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {})


def software() -> dict[str, str | None]:
    """Versions of what a result rests on, and the revision of the source where git knows it."""
    return {
        **versions(),
        "scikit-learn": importlib.metadata.version("scikit-learn"),
        "python": platform.python_version(),
        "revision": revision(),
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


@cache
def revision() -> str | None:
    """The commit of Gossamer and of these programs, with a plus sign if files differ; None: git does not know both."""
    source, programs = Path(gossamer.__file__), Path(__file__).with_name("*.py")

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", source.parent, *words], capture_output=True, text=True, check=True).stdout

    try:
        git("ls-files", "--error-unmatch", source.name)  # an environment may lie in somebody else's repository
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", str(programs))
        return git("rev-parse", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
