"""The handler passes on what Lambda brings, and answers what the notifier says."""

from contextlib import contextmanager

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.handlers import FUNCTION, notify


class Recorder:
    def __init__(self, error=None):
        self.error = error
        self.got = []
        self.closed = 0

    def handle(self, event):
        self.got.append(event)
        if self.error:
            raise self.error
        return {"batchItemFailures": []}


def wired(monkeypatch, recorder):
    @contextmanager
    def notifier(context):
        recorder.context = context
        try:
            yield recorder
        finally:
            recorder.closed += 1

    monkeypatch.setattr(FUNCTION, "notifier", notifier, raising=False)


def test_a_batch_is_handled_and_answered(monkeypatch):
    recorder = Recorder()
    wired(monkeypatch, recorder)
    assert notify.handler({"Records": []}, "context") == {"batchItemFailures": []}
    assert (recorder.got, recorder.context, recorder.closed) == ([{"Records": []}], "context", 1)


def test_an_error_is_raised_after_everything_was_closed(monkeypatch):
    recorder = Recorder(UnavailableError("Slack", "away"))
    wired(monkeypatch, recorder)
    with pytest.raises(UnavailableError):
        notify.handler({"Records": []}, None)
    assert recorder.closed == 1


def test_the_schedule_has_the_answers_in_slack_read(monkeypatch):
    class Answers:
        def poll(self, now):
            return {"approved": [now.tzinfo is not None]}

    @contextmanager
    def approver(context):
        yield Answers()

    monkeypatch.setattr(FUNCTION, "approver", approver, raising=False)
    assert notify.handler({"approvals": True}, None) == {"approved": [True]}
