"""moto in a process of its own: `python -m e2e.site.aws_process PORT DELAYS`.

DELAYS is a JSON file, read again for each request: seconds by service, as requests are signed ("ec2", "monitoring").
"""

import json
import signal
import sys
from pathlib import Path
from threading import Event

from moto import mock_aws

from support.moto_over_http import moto_over_http


def main(port: int, delays: Path) -> None:
    over = Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with mock_aws(), moto_over_http(port=port, delay=lambda service: json.loads(delays.read_text()).get(service, 0.0)):
        over.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
