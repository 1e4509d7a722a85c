"""The two timelines of the system's description, row by row, with the inputs that make them hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from builders import TARGET, CATALOG, instance, look, node

from nodefleet.decide.engine import decide
from nodefleet.domain.decision import Action
from nodefleet.domain.machines import Market, Notice, NoticeKind
from nodefleet.domain.memory import Memory
from nodefleet.domain.operations import Launch, Open, Purpose, Removal, Why
from nodefleet.domain.policy import Limits, Policy, Pool
