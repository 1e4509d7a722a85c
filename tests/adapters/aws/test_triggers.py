"""Who starts a run, and for which cluster."""

import json

import pytest

from nodefleet.adapters.aws.triggers import Trigger, triggers_in
from nodefleet.errors import MalformedError
from support.sentences import is_phrase
from support.wording import assert_wording

BOTH = ("shop", "blog")


def sns(message="{}", **attributes):
    values = {name: {"Type": "String", "Value": value} for name, value in attributes.items()}
    return {"EventSource": "aws:sns", "Sns": {"Message": message, "MessageAttributes": values}}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"cluster": "shop"}, [Trigger(cluster="shop")]),
        ({"cluster": "shop", "urgent": True}, [Trigger(cluster="shop", urgent=True)]),
        ({"cluster": "shop", "urgent": "no"}, [Trigger(cluster="shop")]),
        ({"cluster": "shop", "scheduled": True}, [Trigger(cluster="shop", scheduled=True)]),
        ({"cluster": "shop", "scheduled": 1}, [Trigger(cluster="shop")]),
        ({"cluster": "shop", "daily": True}, [Trigger(cluster="shop", daily=True)]),
        ({"cluster": "shop", "daily": "yes"}, [Trigger(cluster="shop")]),
        ({"Records": [sns(cluster="blog")]}, [Trigger(cluster="blog", urgent=True)]),
        ({"Records": [sns(json.dumps({"cluster": "shop"}))]}, [Trigger(cluster="shop", urgent=True)]),
        ({"Records": [sns(cluster="blog"), sns(cluster="blog")]}, [Trigger(cluster="blog", urgent=True)]),
    ],
)
def test_an_event_says_which_cluster_and_how_urgent(event, expected):
    assert list(triggers_in(event, BOTH)) == expected


@pytest.mark.parametrize(
    "event", [{"source": "aws.events"}, {"Records": [sns("pods wait")]}, {"Records": [sns("[1]")]}]
)
def test_an_event_without_a_name_means_the_only_cluster_there_is(event):
    by_schedule = "source" in event
    assert triggers_in(event, ("shop",)) == (Trigger(cluster="shop", urgent=not by_schedule, scheduled=by_schedule),)
    with pytest.raises(MalformedError) as caught:
        triggers_in(event, BOTH)
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    "event",
    [None, [], "shop", {}, {"cluster": "bank"}, {"cluster": 7}, {"Records": []}, {"Records": {}}, {"Records": [7]}],
)
def test_what_cannot_be_understood_is_malformed(event):
    with pytest.raises(MalformedError) as raised:
        triggers_in(event, BOTH)
    assert is_phrase(str(raised.value).removeprefix("Records "))


def test_a_cluster_that_is_not_known_is_named_in_short_with_those_that_are():
    with pytest.raises(MalformedError) as raised:
        triggers_in({"cluster": "x" * 100}, BOTH)
    assert f"'{'x' * 64}'" in str(raised.value)
    assert_wording(str(raised.value))


@pytest.mark.parametrize("event", [{"source": "aws.ec2"}, {"Source": "aws.events"}, {"clusters": "shop"}])
def test_another_event_names_no_cluster(event):
    with pytest.raises(MalformedError, match=r'{"cluster": "<name>"}$'):
        triggers_in(event, ("shop",))
