"""The configuration of Pulumi.<stack>.yaml as plain values, before it is decoded."""

import json
from typing import Any

from pulumi.runtime import config

from nodefleet.model.serialization import Plain

WEBHOOK = "slackWebhook"  # a secret: it is never decoded, checked or shown here


def read_raw_config(project: str) -> dict[str, Plain]:
    """Everything under the project's name, whether it is known or not: a slip in a key must not be overlooked."""
    everything = {**config.get_config_env(), **config.CONFIG.get()}
    prefix = f"{project}:"
    keys = [key.removeprefix(prefix) for key in everything if key.startswith(prefix)]
    return {key: _plain(config.get_config(f"{prefix}{key}")) for key in keys if key != WEBHOOK}


def _plain(value: Any) -> Plain:
    """Pulumi hands over tables, lists, numbers and switches as JSON, and text as it is."""
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value
