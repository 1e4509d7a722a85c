"""A browser for the tests of the dashboard: Debian's Chromium, or the one that is installed."""

import os
import shutil
import subprocess

from .needed import say

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "a browser: apt-get install chromium"


def browser() -> str | None:
    """The program; none if there is no browser."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def install() -> bool:
    """Where that is possible without asking: as root with apt. Whether there is a browser afterwards."""
    apt = shutil.which("apt-get")
    if browser() is None and apt is not None and os.geteuid() == 0:
        say("Installing Debian's Chromium for the tests of the dashboard …")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = [apt, "install", "-y", "-q", "--no-install-recommends", "chromium"]
        subprocess.run(command, check=False, capture_output=True, env=environment)  # noqa: S603
    return browser() is not None
