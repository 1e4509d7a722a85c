"""Runs one command and ends it when its starter is gone.

The starter holds the other end of our standard input. However it ends, by return, by exception or by `kill -9`, the
pipe closes and the command is told to stop. A signal handler or `atexit` would miss the last case.

    guard.py PIDFILE COMMAND …
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

# Seconds from "please stop" to "stop". The API server would wait a minute for whoever watches it; none of the parts
# loses anything when it is killed.
PATIENCE = 2.0


def _leave_with(child: "subprocess.Popen[bytes]") -> None:
    code = child.wait()
    os._exit(code if code >= 0 else 128 - code)  # as a shell would say it


def main() -> None:
    pid_file, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603
    Path(pid_file).write_text(str(child.pid))
    threading.Thread(target=_leave_with, args=(child,), daemon=True).start()
    sys.stdin.buffer.read()
    child.terminate()
    child.send_signal(signal.SIGCONT)  # a paused one could not hear it
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    main()
