"""A file's content becomes a policy: what wins over what, where each value came from, and every problem at once."""

import copy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.model.serialization import ValidationError, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Readings, Score
from nodefleet.policy.file_schema import PRESETS
from nodefleet.policy.loading import load, salvage
from nodefleet.policy.pool import Pool, Utilisation
from nodefleet.policy.sources import Prometheus
from support.wording import assert_wording

UP = {"kind": "prometheus", "query": "up"}
WINDOW = {"name": "w", "cron": "0 8 * * *", "lasting": "1h", "min": 3}


def refused(data: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        load(data)
    return [str(problem) for problem in caught.value.problems]


def places(data: Any) -> list[str]:
    return [line.split(":")[0] for line in refused(data)]


# ── what wins ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nothing", [None, {}])
def test_an_empty_file_is_all_defaults(nothing):
    assert load(nothing).policy == Policy()


def test_without_pools_there_is_one_named_default():
    [pool] = load({"limits": {"max": 5}}).policy.pools
    assert (pool.name, pool.limits.min, pool.limits.max) == ("default", 2, 5)


def test_a_pool_wins_over_the_top_level_and_that_over_the_preset_and_that_over_the_defaults():
    policy = load(
        {
            "preset": "low-latency",
            "limits": {"max": 20},
            "steps": {"down": 2},
            "pools": [{"name": "a"}, {"name": "b", "limits": {"max": 9}}],
        }
    ).policy
    a, b = policy.pools
    assert (a.limits.min, a.limits.max, a.steps.up, a.steps.down) == (4, 20, 3, 2)
    assert (b.limits.min, b.limits.max, b.steps.up, b.steps.down) == (4, 9, 3, 2)
    assert (a.cooldown.up, a.cooldown.down) == (timedelta(seconds=60), timedelta(seconds=600))


def test_a_pool_may_have_its_own_preset_which_still_gives_way_to_the_top_level():
    data = {
        "preset": "balanced",
        "steps": {"up": 2},
        "pools": [{"name": "a", "preset": "high-throughput"}, {"name": "b"}, {"name": "c", "preset": "node-fleet"}],
    }
    a, b, c = load(data).policy.pools
    assert (a.limits.max, b.limits.max, c.limits.max) == (48, 12, 10)
    assert (a.steps.up, a.steps.urgent) == (2, 4)


def test_cluster_fields_are_read():
    policy = load({"interval": "5m", "time_zone": "Europe/Berlin", "trust": {"gap": 3}, "lease": 600}).policy
    assert policy.interval == timedelta(minutes=5)
    assert policy.time_zone == "Europe/Berlin"
    assert policy.trust.gap == 3
    assert policy.trust.spacing == 0.75
    assert policy.lease == timedelta(minutes=10)


def test_a_section_keeps_its_own_defaults_where_only_one_field_is_written():
    assert load({"reactive": {"memory": {"up": 80}}}).policy.pools[0].reactive.memory == Utilisation(up=80, down=50)


def test_lists_replace():
    data = {"market": {"types": ["a", "b"]}, "pools": [{"name": "x"}, {"name": "y", "market": {"types": ["c"]}}]}
    x, y = load(data).policy.pools
    assert x.market.types == ("a", "b")
    assert y.market.types == ("c",)


def test_tables_with_a_kind_replace_as_a_whole():
    data = {
        "sustain": {"up": {"kind": "score", "threshold": 1.5}, "down": {"kind": "readings", "count": 9}},
        "pools": [{"name": "a", "sustain": {"up": {"kind": "readings"}}}],
    }
    sustain = load(data).policy.pools[0].sustain
    assert sustain.up == Readings(count=2)
    assert sustain.down == Readings(count=9)
    assert load({"sustain": data["sustain"]}).policy.pools[0].sustain.up == Score(threshold=1.5)
    assert places({**data, "pools": [{"name": "a", "sustain": {"up": {"count": 3}}}]}) == ["pools[0].sustain.up.kind"]


def test_readings_and_labels_merge_by_name():
    data = {
        "readings": {"a": UP, "b": UP},
        "labels": {"x": "1"},
        "pools": [{"name": "p", "readings": {"b": {**UP, "query": "own"}}, "labels": {"y": "2"}}],
    }
    [pool] = load(data).policy.pools
    assert pool.readings == {"a": Prometheus(query="up"), "b": Prometheus(query="own")}
    assert pool.labels == {"x": "1", "y": "2"}


def test_loading_leaves_its_input_and_the_presets_alone():
    data = {"preset": "balanced", "limits": {"max": 3}, "readings": {"a": UP}, "pools": [{"name": "a"}, {"name": "b"}]}
    before, presets = copy.deepcopy(data), copy.deepcopy(PRESETS)
    load(data)
    assert data == before
    assert presets == PRESETS


@pytest.mark.parametrize("preset", PRESETS)
def test_a_whole_policy_written_out_loads_as_itself(preset):
    policy = load({"preset": preset, "limits": {"min": 2}, "windows": [WINDOW]}).policy
    assert load(to_plain(policy, full=True)).policy == policy


# ── where it came from ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_single_value_knows_where_it_came_from():
    origins = load(
        {
            "preset": "low-latency",
            "interval": 180,
            "limits": {"max": 20},
            "sustain": {"up": {"kind": "score", "threshold": 1.5}},
            "pools": [
                {"name": "web", "steps": {"up": 2}, "windows": [WINDOW | {"min": 5}]},
                {"name": "gpu", "preset": "cost-optimized", "market": {"types": ["g5.xlarge"]}},
            ],
        }
    ).origins
    assert origins["interval"] == "file"
    assert origins["lease"] == "default"
    assert_wording(origins["pools[0].limits.min"])
    assert_wording(origins["pools[1].limits.min"])
    assert origins["pools[0].limits.max"] == "file"
    assert_wording(origins["pools[0].steps.up"])
    assert_wording(origins["pools[1].steps.up"])
    assert_wording(origins["pools[0].name"])
    assert origins["pools[0].sustain.up.kind"] == "file"
    assert origins["pools[0].sustain.up.threshold"] == "file"
    assert origins["pools[0].sustain.up.half_life"] == "default"
    assert origins["pools[0].sustain.down.count"] == "default"
    assert_wording(origins["pools[0].windows[0].cron"])
    assert origins["pools[0].windows[0].max"] == "default"
    assert origins["pools[1].windows"] == "default"
    assert_wording(origins["pools[1].market.types"])
    assert origins["pools[1].market.spot_percent"] == "default"


def test_what_was_replaced_leaves_no_trace():
    data = {
        "sustain": {"up": {"kind": "score", "threshold": 1.5}},
        "pools": [{"name": "a", "sustain": {"up": {"kind": "score"}}}],
    }
    assert load(data).origins["pools[0].sustain.up.threshold"] == "default"


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ({"limit": {}}, ["limit: {} is an unknown key; did you mean limits?"]),
        ({"limits": {"mx": 3}}, ["limits.mx: 3 is an unknown key; did you mean max?"]),
        ({"limits": {"max": "3"}}, ["limits.max: '3' is not a whole number; write for example 3"]),
        ({"limits": 5}, ["limits: 5 is not a table of Limits's fields; fields are min, max"]),
        ({"preset": "lowlatency"}, ["preset: 'lowlatency' is not a choice here; did you mean low-latency?"]),
        ({"pools": {}}, ["pools: {} is not a list; write a list"]),
        ({"pools": []}, ["pools: [] is empty; leave it out to get one pool named default"]),
        ({"pools": [{}]}, ["pools[0].name: None is missing; each of several pools needs a name"]),
        (
            {"sustain": {"up": {"kind": ["score"]}}},
            ["sustain.up.kind: ['score'] is not a known kind; did you mean score?"],
        ),
        ({"interval": 10**400}, None),
        ({"interval": "99999999999d"}, None),
        ({"interval": float("nan")}, None),
        ({"interval": True}, None),
    ],
)
def test_a_wrong_shape_is_told_with_what_would_be_right(data, problems):
    if problems is None:
        [problem] = refused(data)
        assert_wording(problem)
    else:
        assert refused(data) == problems


@pytest.mark.parametrize("data", [[1], 5, "limits", True])
def test_a_file_that_is_no_table_is_told_what_it_could_hold(data):
    [problem] = refused(data)
    assert_wording(problem)


def test_everything_that_is_wrong_comes_in_one_answer():
    assert places(
        {
            "presett": "x",
            "interval": 60,
            "limits": {"min": 20},
            "steps": {"up": 0},
            "reactive": {"cpu": {"down": "low"}, "memory": {"down": 90}},
            "windows": [
                {"name": "a", "cron": "0 25 * * *", "lasting": 30, "min": 20},
                {"name": "b", "cron": "0 8 * * *", "min": 20},
            ],
            "time_zone": "Europe/Berlim",
            "custom": [{"kind": "threshold", "name": "t", "reading": "queue"}],
            "pools": [{"name": "a"}, {"name": "a", "limits": {"max": 30}}],
        }
    ) == [
        "presett",
        "reactive.cpu.down",
        "windows[1].lasting",
        "steps.up",
        "interval",
        "pools[1].name",
        "limits.min",
        "reactive.memory.down",
        "windows[0].lasting",
        "windows[0].min",
        "custom[0].reading",
        "time_zone",
        "windows[0].cron",
    ]


def test_a_clash_is_told_where_it_is_written():
    assert_wording(refused({"limits": {"max": 1}}))
    assert_wording(refused({"preset": "high-throughput", "limits": {"max": 5}}))
    assert_wording(refused({"interval": "1m"}))
    assert_wording(refused({"reactive": {"cpu": {"down": 70}}}))


def test_a_clash_between_top_level_and_pool_names_both_places():
    assert_wording(refused({"limits": {"min": 5}, "pools": [{"name": "a"}, {"name": "b", "limits": {"max": 3}}]}))


def test_what_is_wrong_for_every_pool_is_told_once():
    assert places({"limits": {"min": 20}, "pools": [{"name": "a"}, {"name": "b"}]}) == ["limits.min"]


def test_what_each_pool_says_wrong_is_told_for_each():
    wrong = {"limits": {"min": 20}}
    assert places({"pools": [{"name": "a", **wrong}, {"name": "b", **wrong}]}) == [
        "pools[0].limits.min",
        "pools[1].limits.min",
    ]


def test_a_wrong_value_is_not_held_against_its_neighbours():
    assert places({"limits": {"min": 20, "max": "thirty"}}) == ["limits.max"]
    assert places({"limits": {"min": 20, "max": 0}}) == ["limits.max"]
    assert places({"interval": "soon", "sustain": {"up": {"kind": "score", "threshold": 9}}}) == ["interval"]
    assert places({"sustain": {"up": {"kind": "score", "threshold": 9, "half_life": 0}}}) == ["sustain.up.half_life"]
    slow = {"m": {"kind": "cloud-watch", "namespace": "n", "metric": "m", "period": 300}}
    assert places({"interval": "soon", "readings": slow}) == ["interval"]
    assert places({"trust": {"gap": 0}, "readings": slow}) == ["trust.gap"]
    assert places({"trust": {"gap": 2}, "readings": slow}) == ["readings.m.period"]
    assert places({"market": {"types": [5]}}) == ["market.types[0]"]
    assert places({"pools": [5]}) == ["pools[0]"]


def test_a_reading_that_is_declared_wrongly_is_declared_all_the_same():
    rule = {"kind": "threshold", "name": "t", "reading": "q"}
    assert places({"readings": {"q": {"kind": "prometheus"}}, "custom": [rule]}) == ["readings.q.query"]
    assert places({"readings": 5, "custom": [rule]}) == ["readings"]


def test_an_unknown_preset_is_not_guessed_at():
    assert places({"preset": "fast", "limits": {"min": 20}}) == ["preset"]
    assert places({"preset": "fast", "limits": {"min": 20, "max": 10}}) == ["preset", "limits.min"]
    data = {"pools": [{"name": "a", "preset": "fast", "limits": {"min": 20}}, {"name": "b", "limits": {"min": 20}}]}
    assert places(data) == ["pools[0].preset", "pools[1].limits.min"]


def test_a_pool_that_overrides_a_wrong_value_is_checked_with_its_own():
    data = {"limits": {"max": "many"}, "pools": [{"name": "a", "limits": {"min": 4, "max": 3}}]}
    assert places(data) == ["limits.max", "pools[0].limits.min"]


def test_a_wrong_value_is_told_even_where_every_pool_overrides_it():
    assert places({"limits": 5, "pools": [{"name": "a", "limits": {"min": 1}}]}) == ["limits"]


def test_items_keep_their_place_in_the_file_when_one_before_them_is_unusable():
    data = {
        "readings": {"q": UP},
        "custom": [{"kind": "threshold"}, {"kind": "threshold", "name": "t", "reading": "p"}],
        "pools": ["oops", {"name": "b", "windows": [{"name": "x"}, WINDOW | {"min": 99}]}],
    }
    assert places(data) == [
        "custom[0].name",
        "custom[0].reading",
        "pools[0]",
        "pools[1].windows[0].cron",
        "pools[1].windows[0].lasting",
        "pools[1].windows[1].min",
        "custom[1].reading",
    ]


def test_a_pool_without_a_name_is_still_checked():
    assert places({"pools": [{"limits": {"min": 20}}, {"name": "default"}]}) == ["pools[0].name", "pools[0].limits.min"]


def test_other_keys_than_text_are_told_too():
    assert places({1: 2}) == ["[1]"]
    assert load({"labels": {1: "x"}}).policy.pools[0].labels == {"1": "x"}


def test_a_kind_where_none_belongs_changes_nothing():
    assert load({"limits": {"kind": "x", "max": 5}}).policy.pools[0].limits.max == 5


# ── whatever is written ──────────────────────────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    [
        *("preset", "interval", "time_zone", "lease", "burst", "budget", "limits", "min", "max", "pools", "name"),
        *("windows", "cron", "lasting", "sustain", "up", "down", "kind", "score", "half_life", "window", "threshold"),
        *("readings", "custom", "reading", "market", "types", "labels", "targets", "queue", "steps"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-5, 500) | st.floats() | st.sampled_from(["5m", "", "x", "UTC"])
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))


@given(st.dictionaries(WORDS, PLAIN, max_size=6))
def test_any_content_is_either_a_policy_or_refused_with_problems(data):
    try:
        policy = load(data).policy
    except ValidationError as error:
        told = [(problem.path, problem.wrong, problem.right) for problem in error.problems]
    else:
        told = []
        assert load(to_plain(policy, full=True)).policy == policy
    assert len(set(told)) == len(told)


# ── what can be used of a policy that is refused ─────────────────────────────────────────────────────────────────


def test_of_a_refused_policy_every_sound_value_is_kept():
    found = salvage({"limits": {"min": 3, "max": 7, "most": 9}, "market": {"spot_percent": 170}, "new": 1})
    (pool,) = found.pools
    assert (pool.name, pool.limits.min, pool.limits.max) == ("default", 3, 7)
    assert pool.market.spot_percent == Pool().market.spot_percent


def test_a_held_fleet_follows_no_rule_of_a_refused_policy():
    data = {
        "new": 1,
        "windows": [{"name": "lunch", "cron": "no cron", "lasting": 3600, "min": 3}],
        "readings": {"jobs": {"kind": "prometheus", "query": "x"}},
        "custom": [{"kind": "job-demand", "name": "runners", "jobs": "jobs"}],
    }
    (pool,) = salvage(data).pools
    assert (pool.windows, pool.custom, pool.readings, pool.predictive.enabled) == ((), (), {}, False)


def test_pools_that_cannot_be_read_are_left_out():
    data = {"pools": [{"name": "web", "limits": {"min": 1}}, {"limits": {"min": 5}}, {"name": "web"}, "nonsense"]}
    (web,) = salvage(data).pools
    assert (web.name, web.limits.min) == ("web", 1)


@pytest.mark.parametrize("data", ["nonsense", {"pools": "nonsense"}, {"pools": ["nonsense"]}, 5])
def test_without_a_pool_that_can_be_read_there_is_none(data):
    assert salvage(data).pools == ()


@pytest.mark.parametrize("data", [{"lease": 10}, {"time_zone": "Mars/Olympus"}, {"burst": {"every": 400}}])
def test_times_that_do_not_go_together_are_the_usual_ones(data):
    found = salvage({**data, "limits": {"min": 3}})
    usual = Policy()
    assert (found.interval, found.lease, found.burst) == (usual.interval, usual.lease, usual.burst)
    assert (found.time_zone, found.pools[0].limits.min) == ("UTC", 3)


def test_times_that_go_together_are_kept():
    assert salvage({"interval": 240, "time_zone": "Europe/Berlin", "new": 1}).time_zone == "Europe/Berlin"


def test_an_empty_content_is_the_defaults_without_their_forecast():
    (pool,) = salvage(None).pools
    assert pool.limits == Pool().limits
