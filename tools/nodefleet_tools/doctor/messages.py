"""Whether operators can be told: the secret with Slack's webhook. Nothing is sent, and its value is not shown."""

from collections.abc import Iterator

from nodefleet.settings import SLACK
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint


def slack(ctx: DoctorContext) -> Iterator[Finding]:
    secret = ctx.parts.slack_secret
    if not secret:
        yield hint(
            "not configured here, so it is not known whether operators are told", f"Set {SLACK} as `notify` has it"
        )
        return
    ctx.parts.slack(secret)
    yield fine(f"secret {secret} holds a webhook (nothing was sent)")
