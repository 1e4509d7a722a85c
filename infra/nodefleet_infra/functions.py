"""The four functions as data: what runs, how long, where, and what becomes of an event that fails.

Each is started through an alias, never directly. An alias points at a version, so that going back is moving it, and
retries are set by alias:

    tick      the schedule. A run that failed or came late is not worth repeating: the next one iterations anyway
    urgent    alerts, operators, EC2. These events are not repeated
    live      everything else
"""

from dataclasses import dataclass

TICK, URGENT, LIVE = "tick", "urgent", "live"
RUNTIME = "python3.13"
ARCHITECTURE = "arm64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """How often Lambda tries an event again, and how old it may get. What is given up goes to the queue, if it may."""

    name: str
    retries: int
    age: int  # seconds
    keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    name: str
    says: str
    timeout: int  # seconds
    in_vpc: bool = True
    aliases: tuple[Alias, ...]

    @property
    def handler(self) -> str:
        return f"nodefleet.handlers.{self.name}.handler"


RECONCILE = Function(
    name="reconcile",
    says="One cluster's run: look, decide, take a few safe steps",
    timeout=120,
    aliases=(
        Alias(name=TICK, retries=0, age=60, keep=False),
        Alias(name=URGENT, retries=2, age=300),  # by then two ticks have looked
    ),
)
HIDDEN_SECONDS = RECONCILE.timeout + 10  # a queued run's message meanwhile; of one that died it then comes again
INTERRUPTION = Function(
    name="interruption",
    says="What EC2 says of its instances: interrupted nodes are drained at once",
    timeout=150,
    # A Spot warning is stale after two minutes, but a scheduled change matters hours later.
    aliases=(Alias(name=URGENT, retries=2, age=3600),),
)
NOTIFY = Function(
    name="notify",
    says="Events and alarms to Slack",
    timeout=90,
    in_vpc=False,  # Slack has no IPv6, and this function touches nothing in the VPC
    aliases=(Alias(name=LIVE, retries=2, age=21_600),),
)
REPORT = Function(
    name="report",
    says="The week in figures",
    timeout=120,
    aliases=(Alias(name=LIVE, retries=2, age=21_600),),
)
FUNCTIONS = (RECONCILE, INTERRUPTION, NOTIFY, REPORT)
