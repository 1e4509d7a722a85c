"""DynamoDB Local, Amazon's own: conditions, transactions and streams as they are.

Tables live in a file, which costs next to nothing, so that they are still there after a restart.
"""

from pathlib import Path

from .needed import tool
from .part import LOOPBACK, Part, answers, free_ports
from .recipes import dynamodb_local


class DynamoDb:
    """One set of tables for all regions and access keys: what the code writes, the harness reads."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"http://{LOOPBACK}:{port}"
        java, made = tool("java"), dynamodb_local()
        data = folder / "data" / "dynamodb"
        data.mkdir(parents=True, exist_ok=True)
        command = [
            java,
            "-Xmx512m",
            f"-Djava.library.path={made / 'lib'}",
            "-cp",
            f"{made / 'classes'}:{made / 'lib'}/*",
            "LoopbackDynamoDb",
            *("-dbPath", str(data)),
            *("-sharedDb", "-disableTelemetry"),
            *("-port", str(port)),
        ]
        # Without a signature it says 400, and that is an answer.
        self.part = Part("dynamodb", command, ready=lambda: answers(self.endpoint, below=500), folder=folder)
