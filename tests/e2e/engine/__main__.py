"""Pulumi's engine on moto, for as long as a script runs in a fresh checkout of this tree:

    cd tests
    ../.venv/bin/python -m e2e.engine 'pulumi stack init dev && pulumi up'

`make setup layers` has run before. Nothing of it outlives the command.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.engine.engine import engine


def main() -> int:
    os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing")  # noqa: S106  # moto takes any
    script = " ".join(sys.argv[1:]) or "exec bash"
    with tempfile.TemporaryDirectory(prefix="nodefleet-engine-") as folder, engine(Path(folder)) as pulumi:
        command = ["bash", "-euc", f"make --silent setup layers\n{script}"]
        return subprocess.run(command, cwd=pulumi.checkout, env=pulumi.environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
