"""What Alertmanager makes of our template for operators, without an Alertmanager."""

import json
import re
from typing import Any


def message(template: str, alert: dict[str, Any], status: str) -> str:
    """What Alertmanager makes of the template, for the few things that stand in it. On the real one: tests/e2e."""
    known = {f".CommonLabels.{key}": value for key, value in {**alert["labels"], "alertname": alert["alert"]}.items()}
    known |= {f".CommonAnnotations.{key}": value for key, value in alert["annotations"].items()}
    text = re.sub(r"\{\{ with index .Alerts 0 \}\}.*?\{\{ end \}\}\{\{ end \}\}", "2026-11-16T03:12:05Z", template)
    word = "ALARM" if status == "firing" else "OK"
    text = re.sub(r'\{\{ if eq .Status "firing" \}\}ALARM\{\{ else \}\}OK\{\{ end \}\}', word, text)
    text = re.sub(r'\{\{ printf "%q" ([.\w]+) \}\}', lambda name: json.dumps(known[name[1]]), text)
    text = re.sub(r"\{\{ ([.\w]+) \}\}", lambda name: known[name[1]], text)
    assert "{{" not in text
    return text
