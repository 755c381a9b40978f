"""Writing files so that a crash leaves the old one or the new one, never half of one."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes | str, *, private: bool = False) -> None:
    """Write to a temporary file beside `path`, sync it, then rename.

    Args:
        path: where the content goes; replaced if it exists.
        content: text is written as UTF-8.
        private: mode 0600 instead of 0644.
    """
    data = content.encode() if isinstance(content, str) else content
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o600 if private else 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
