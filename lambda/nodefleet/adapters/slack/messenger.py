"""Letters become messages. Slack gets the plain text of a message whose blocks it does not take, so that a fault in
the form never keeps the content from people."""

from collections.abc import Callable

from nodefleet.adapters.slack.blocks import payload, plain
from nodefleet.adapters.slack.sheets import Links, sheet
from nodefleet.adapters.slack.webhook import Webhook
from nodefleet.errors import MalformedError, NodeFleetError
from nodefleet.notifying.folding import Letter
from nodefleet.notifying.limits import Limits
from nodefleet.ports import Telemetry


class SlackMessenger:
    def __init__(self, webhook: Webhook, links: Callable[[str], Links], telemetry: Telemetry, limits: Limits) -> None:
        self._webhook = webhook
        self._links = links
        self._telemetry = telemetry
        self._limits = limits
        self._known: dict[str, Links] = {}

    def send(self, letter: Letter) -> None:
        written = sheet(letter, self._links_of(letter.first.cluster), self._limits)
        try:
            self._webhook.post(payload(written))
        except MalformedError as refused:
            self._telemetry.warn("Slack does not take a message's blocks: only its text is sent", cause=str(refused))
            self._webhook.post(plain(written))

    def _links_of(self, cluster: str) -> Links:
        """A message without links is better than none."""
        if cluster and cluster not in self._known:
            try:
                self._known[cluster] = self._links(cluster)
            except NodeFleetError as error:
                self._telemetry.warn("a message goes without links", cluster=cluster, cause=str(error))
                self._known[cluster] = Links()
        return self._known.get(cluster, Links())
