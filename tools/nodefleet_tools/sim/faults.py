"""What the world itself does to port calls: a run's time ends, parts are away, slow, or asked too often."""

from collections import Counter

from nodefleet.errors import ThrottledError, UnavailableError
from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.hooks import Call, Hook, KilledError, Run

# What is away when a port is: the name that its errors carry. Gauges never raise: they ask here themselves.
SERVICES = {"cloud": "EC2", "cluster": "Kubernetes", "store": "DynamoDB", "history": "DynamoDB", "archive": "S3"}


class Faults:
    """The gate that every call passes. Everything in it goes by the port's name."""

    def __init__(self, clock: Clock) -> None:
        self.away: dict[str, str] = {}  # cause: no call gets through
        self.throttled: Counter[str] = Counter()  # so many calls are turned away
        self.latency: dict[str, float] = {}  # seconds that a call takes
        self.hooks: list[Hook] = []  # at every call of every run
        self._clock = clock

    def before(self, run: Run, call: Call) -> None:
        """On its way out."""
        self._pass(call)
        self._stop(run)
        seconds = self.latency.get(call.port)
        if seconds:
            self._clock.wait(seconds)
        service = SERVICES.get(call.port)
        if service is None:
            return
        if call.port in self.away:
            raise UnavailableError(service, self.away[call.port])
        if self.throttled[call.port] > 0:
            self.throttled[call.port] -= 1
            raise ThrottledError(service, "Rate exceeded")

    def after(self, run: Run, call: Call) -> None:
        """On its way back. A call that outlives its run takes effect, but its answer is lost."""
        self._pass(call)
        self._stop(run)

    def _pass(self, call: Call) -> None:
        for hook in tuple(self.hooks):
            hook(call)

    def _stop(self, run: Run) -> None:
        if self._clock.now >= run.limit:
            raise KilledError(f"{run.name} is over its time")
