"""The unit of the server that wakes the autoscaler, as user data installs it, with a login as the server makes it.

The AWS CLI is a few lines over boto3 here, which take as long to start as the real one: about a second.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from e2e.site.login import login
from e2e.site.site import Site
from nodefleet_infra import manifests
from nodefleet_infra.userdata import pending

_AWS = """#!{python}
import sys, boto3, json
words = dict(zip(sys.argv[3::2], sys.argv[4::2]))
boto3.client("sns").publish(
    TopicArn=words["--topic-arn"],
    Message=words["--message"],
    MessageAttributes=json.loads(words["--message-attributes"]),
)
"""


@contextmanager
def watching(site: Site, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    files = folder / "run"
    files.mkdir()
    made = login(site.admin, manifests.WATCHER)
    (files / "token").write_text(made["token"])
    (files / "ca.crt").write_text(made["ca"])
    program = folder / "aws"
    program.write_text(_AWS.format(python=sys.executable))
    program.chmod(0o755)
    environment = {
        **site.aws.environment(),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "RUNTIME_DIRECTORY": str(files),
        "SERVER": urlsplit(made["server"]).netloc,
        "REGION": site.aws.region,
        "CLUSTER": site.stack.cluster,
        "TOPIC": site.stack.manifests_site.wake_topic,
    }
    with (folder / "log").open("wb") as log:
        watcher = subprocess.Popen([sys.executable, "-u", pending.__file__], env=environment, stderr=log)  # noqa: S603
        try:
            yield watcher
        finally:
            watcher.terminate()
            watcher.wait()
