"""The functions' login as the server asks for it: the words of its script, by a real kubectl of a real API server."""

import re
import subprocess
from datetime import UTC, datetime, timedelta
from importlib.resources import files

from e2e.parts.recipes import program
from e2e.parts.running import RunningParts
from e2e.site.waiting import LONGEST

SCRIPT = files("nodefleet_infra.userdata").joinpath("upkeep.sh").read_text("utf-8")


def test_a_token_comes_with_the_time_at_which_it_ends(real_parts: RunningParts) -> None:
    (wanted,) = re.findall(r"create token .*?-o '([^']+)'", SCRIPT, re.DOTALL)
    (seconds,) = re.findall(r"LOGIN_SECONDS=(\d+)", SCRIPT)
    command = [program("kubectl"), f"--kubeconfig={real_parts.kubeconfig}", "-n", "default"]
    words = ["create", "token", "default", f"--duration={seconds}s", "-o", wanted]
    ran = subprocess.run([*command, *words], check=True, capture_output=True, text=True, timeout=LONGEST)  # noqa: S603
    token, _, until = ran.stdout.partition(" ")
    assert token.count(".") == 2
    left = datetime.fromisoformat(until) - datetime.now(UTC)
    assert abs(left - timedelta(seconds=int(seconds))) < timedelta(minutes=5)
