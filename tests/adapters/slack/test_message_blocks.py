"""Messages keep to Slack's rules, whatever stands in them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.adapters.slack.message import DETAIL_SECTIONS, Link, Links, SlackMessage, build_message, payload, plain
from nodefleet.model.alerts import AlertKind
from nodefleet.model.state import Level
from nodefleet.notifications.incoming import AlarmState, DeliveryLimits, NotificationForm
from support.message_examples import AT, LINKS, OF_A_KIND, SPECIAL, alarm, event, several, single
from support.slack_rules import problems
from support.wording import assert_wording

BARE = SlackMessage(sign="🔵", headline="Hello", since=AT, until=AT)
LETTERS = {kind.value: single(each) for kind, each in OF_A_KIND.items()} | dict(SPECIAL)


def of(**changes):
    return payload(SlackMessage(**{"sign": "🔵", "headline": "Hello", "since": AT, "until": AT, **changes}))


def texts(message):
    return [block["text"]["text"] for block in message["blocks"] if "text" in block]


@pytest.mark.parametrize("name", LETTERS)
def test_every_example_keeps_to_slack_s_rules(name):
    assert problems(payload(build_message(LETTERS[name], LINKS, DeliveryLimits()))) == []


def test_the_checker_notices():
    good = payload(BARE)
    header, *rest = good["blocks"]
    assert problems(good) == []
    assert problems({**good, "text": ""})
    assert problems({**good, "text": "<!channel> look"})
    assert problems({**good, "blocks": [header] * 51})
    assert problems({**good, "blocks": [{**header, "text": {"type": "plain_text", "text": "a" * 151}}, *rest]})
    assert problems({**good, "blocks": [{"type": "section"}]})
    assert problems({**good, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "a"}}]})
    assert problems({**good, "blocks": [{"type": "context", "elements": []}]})
    assert problems({**good, "blocks": [{"type": "marquee"}]})


def test_an_empty_part_has_no_block():
    assert [block["type"] for block in payload(BARE)["blocks"]] == ["header", "context"]


def test_the_parts_come_in_the_order_of_a_reader_s_questions():
    message = of(mark="M", body="B", facts=(("Nodes", "4"), ("Cost", "")), todo="T", details=("D", "E"))
    assert_wording(texts(message))
    assert [block.get("fields") for block in message["blocks"]][3] == [
        {"type": "mrkdwn", "text": "*Nodes*\n4", "verbatim": True}
    ]


def test_braces_in_a_text_are_just_braces():
    assert "{0} {x}" in texts(of(body="{0} {x}"))


def test_many_details_fill_several_sections_and_the_rest_is_counted():
    message = of(details=tuple(f"{number} " + "x" * 900 for number in range(20)))
    *sections, last = texts(message)[1:]
    assert len(sections) == DETAIL_SECTIONS
    assert last == "… and 11 more"
    assert problems(message) == []


def test_no_detail_follows_one_that_was_left_out():
    message = of(details=(*("x" * 990 for _ in range(8)), "short"))
    assert texts(message)[-1] == "… and 3 more"


def test_a_detail_is_one_line():
    assert texts(of(details=("a\nb\n\n  c",)))[-1] == "• a b c"


def test_a_phone_shows_the_headline_and_the_beginning():
    assert plain(SlackMessage(sign="🔴", headline="Hello", body="x" * 1000, since=AT, until=AT))["text"] == (
        "🔴 Hello: " + "x" * 399 + "…"
    )
    assert plain(BARE)["text"] == "🔵 Hello"


def test_links_do_not_unfold_into_pictures():
    assert (payload(BARE)["unfurl_links"], payload(BARE)["unfurl_media"]) == (False, False)


def test_a_link_that_makes_the_footer_too_long_is_left_out():
    links = tuple(Link(words=name, url=f"https://x.example/{'a' * 1500}{name}") for name in ("one", "two"))
    (context,) = of(links=links)["blocks"][-1]["elements"]
    assert "|one>" in context["text"]
    assert "|two>" not in context["text"]


NASTY = st.one_of(
    st.text(max_size=5000),
    st.sampled_from(
        ["<!channel>", "<@U123>", "&" * 4000, "🔴" * 2000, "\ud800", "\x00", "@here", "a|b", "  \n ", "*_`~"]
    ),
)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
EVENTS = st.builds(
    event,
    st.sampled_from(AlertKind),
    NASTY,
    cluster=NASTY,
    pool=NASTY,
    at=TIMES,
    nodes=st.none() | st.integers(0, 5000),
    change=st.integers(-50, 50),
    usd_per_day=st.none() | st.floats(-1e9, 1e9),
    details=st.lists(NASTY, max_size=30).map(tuple),
    level=st.sampled_from(Level),
    dry=st.booleans(),
)
ALARMS = st.builds(
    alarm,
    NASTY.filter(bool),
    cluster=NASTY,
    description=NASTY,
    reason=NASTY,
    rule=NASTY,
    console=NASTY.map(lambda text: "https://" + text),
    state=st.sampled_from(AlarmState),
    at=TIMES,
)
WHERE = st.builds(Links, dashboard=NASTY.map(lambda text: "https://" + text), logs=NASTY)


@given(EVENTS | ALARMS, WHERE)
def test_whatever_stands_in_it_one_message_keeps_to_the_rules(told, links):
    message = build_message(single(told), links, DeliveryLimits())
    assert problems(payload(message)) == []
    assert problems({**plain(message), "blocks": payload(BARE)["blocks"]}) == []


@given(
    st.lists(EVENTS | ALARMS, min_size=1, max_size=12),
    WHERE,
    st.sampled_from([NotificationForm.MANY, NotificationForm.MIXED, NotificationForm.OLD]),
)
def test_whatever_stands_in_it_a_folded_message_keeps_to_the_rules(told, links, form):
    assert problems(payload(build_message(several(form, *told), links, DeliveryLimits()))) == []


def test_a_thousand_events_are_one_message():
    flood = [
        event(AlertKind.INTERRUPTED, "x" * 500, id=str(number), at=AT + timedelta(seconds=number))
        for number in range(1000)
    ]
    message = payload(build_message(several(NotificationForm.MANY, *flood), LINKS, DeliveryLimits()))
    assert problems(message) == []
    assert "1000 ×" in message["text"]
