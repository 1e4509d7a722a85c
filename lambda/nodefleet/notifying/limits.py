"""The figures of telling people."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    # ── a flood ──────────────────────────────────────────────────────────────────────────────────────────────────
    alone: int = 3  # news of one kind, cluster and batch; more than this is one letter
    letters: int = 10  # of one cluster and batch; beyond this only what stands out has a letter of its own
    shown: int = 3  # news of a folded letter that is given in its own words; the rest is counted
    shown_outstanding: int = 10  # the same for what stands out
    old_after: timedelta = timedelta(hours=6)  # what happened longer ago is only counted

    # ── each once ────────────────────────────────────────────────────────────────────────────────────────────────
    claim: timedelta = timedelta(seconds=60)  # longer than a message takes at worst: see `longest_sending`
    look_again: timedelta = timedelta(seconds=2)  # while another run has the claim
    remember: timedelta = timedelta(days=7)  # the stream gives nothing that is older than a day

    # ── one message ──────────────────────────────────────────────────────────────────────────────────────────────
    connect: timedelta = timedelta(seconds=3)
    answer: timedelta = timedelta(seconds=5)
    tries: int = 3  # only while Slack asks to wait
    longest_wait: timedelta = timedelta(seconds=10)  # that Slack may ask for between two of them
    reserve: timedelta = timedelta(seconds=10)  # with less time left than this nothing is begun

    @property
    def longest_sending(self) -> timedelta:
        return self.tries * (self.connect + self.answer) + (self.tries - 1) * self.longest_wait
