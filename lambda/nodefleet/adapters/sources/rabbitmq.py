"""RabbitMQ: how many messages a queue holds, by the management API. Its figures are some seconds old at most."""

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

from nodefleet.adapters import http
from nodefleet.adapters.sources.logins import SourceLogins, get_json, missing_for_status, read_each
from nodefleet.adapters.sources.port import Moment, SourceCall
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.demand import Rabbitmq

SERVICE = "RabbitMQ"
_FIELDS = {"ready": "messages_ready", "unacked": "messages_unacknowledged", "all": "messages"}


class RabbitmqQueues:
    def __init__(self, logins: SourceLogins) -> None:
        self._logins = logins

    def calls(self, entries: Sequence[Rabbitmq], moment: Moment) -> Iterator[SourceCall]:
        for entry in entries:
            yield SourceCall(SERVICE, (entry,), read_each(partial(self._read, entry, moment)))

    def _read(self, entry: Rabbitmq, moment: Moment) -> Sample:
        wrong = http.address_problem(entry.url, SERVICE)
        if wrong:
            return Missing(wrong)
        path = f"/api/queues/{quote(entry.vhost, safe='')}/{quote(entry.queue, safe='')}"
        request = http.HttpRequest(service=SERVICE, url=entry.url.rstrip("/") + path)
        answer = get_json(request, self._logins, entry.secret, moment.deadline)
        if isinstance(answer, Missing):
            return answer
        status, document = answer
        if status == HTTPStatus.NOT_FOUND:
            return Missing(f"RabbitMQ has no queue {entry.queue} in virtual host {entry.vhost}: check both names")
        if status != HTTPStatus.OK or not isinstance(document, dict):
            return missing_for_status(SERVICE, status)
        count = document.get(_FIELDS[entry.counts])
        if not isinstance(count, int):
            # A queue that was just declared has no figures yet.
            return Missing(f"RabbitMQ has no figures of queue {entry.queue} yet", empty_at=moment.now)
        return Reading(float(count), moment.now)
