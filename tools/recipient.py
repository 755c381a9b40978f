"""What a recipient does with a release, on any system: check it in three ways, load it, sample from it.

    python tools/recipient.py RELEASE ...

Needs Gossamer installed. CI runs it on macOS and Windows with releases that Linux made. Exit status 1: something failed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import gossamer

CHECKER = Path(__file__).with_name("check_release.py")


def receive(release: Path) -> None:
    """Do all of it. Raises CalledProcessError or AssertionError: something failed."""
    verdict = gossamer.verify(release)
    assert verdict.ok, verdict.problems
    print(release, "verified.", *verdict.not_checked, sep="\n  ")
    subprocess.run([sys.executable, CHECKER, release], check=True)
    synthesizer = gossamer.Synthesizer.load(release)
    with tempfile.TemporaryDirectory() as scratch:
        saved = synthesizer.sample(100, seed=0).save(Path(scratch) / synthesizer.samples.file)
        assert saved is None or Path(saved).is_file()
    program = (
        f"import sys; sys.path.insert(0, {str(release)!r}); import load; print(len(load.load().sample(10, seed=0)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    for place in map(Path, sys.argv[1:]):
        receive(place)
