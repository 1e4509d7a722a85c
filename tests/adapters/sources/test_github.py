"""GitHub Actions on a double with the shape of GitHub's REST API."""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from nodefleet.adapters import http
from nodefleet.adapters.credentials import GithubLogin
from nodefleet.adapters.sources.github import GithubJobs, _encode, _next_page, app_token
from nodefleet.errors import MisconfiguredError
from nodefleet.model.snapshot import Reading
from nodefleet.policy.sources import Github
from support.builders import NOON, after
from support.source_doubles import Answer, GithubDouble, cause, free_port, job, logins, read_one
from support.wording import assert_wording

REPOSITORY = "shop/web"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
).decode()
PKCS8 = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PAT = GithubLogin(token="pat")
APP = GithubLogin(app_id="42", installation_id="7", private_key=PEM)


class Reader:
    """An adapter that lives on between readings, as in a warm function."""

    def __init__(self, double, login=PAT, **options):
        self.double, self.warnings, self.time = double, [], NOON.timestamp()
        self.adapter = GithubJobs(
            logins(github=login), warn=self.warnings.append, clock=lambda: self.time, **{"may_change": True, **options}
        )

    def read(self, seconds=5.0, now=NOON, may_change=True, **entry):
        given = {"repositories": (REPOSITORY,), "labels": ("self-hosted", "linux", "gpu"), **entry}
        source = Github(**{"api": self.double.http.address, "secret": "github", **given})
        return read_one(self.adapter, source, seconds, now=now, may_change=may_change)


@contextmanager
def github(*runs, login=PAT, **parts):
    double = GithubDouble(jobs={REPOSITORY: {1 + n: list(jobs) for n, jobs in enumerate(runs)}}, **parts)
    with double.http.serving():
        yield Reader(double, login), double


def test_queued_and_running_jobs_that_our_runners_can_take():
    runs = [
        [job("queued"), job("queued", "self-hosted", "gpu"), job("completed")],
        [job("queued", "ubuntu-latest"), job("in_progress", runner="ours-1"), job("queued", "self-hosted", "arm64")],
        [job("queued", "Self-Hosted", "Linux")],
    ]
    with github(*runs) as (reader, _):
        assert reader.read() == Reading(4, NOON)
        assert reader.read(counts="queued") == Reading(3, NOON)
        assert reader.read(counts="running") == Reading(1, NOON)


def test_a_job_may_ask_for_our_runners_without_the_label_self_hosted():
    """GitHub does not ask for it: a runner takes every job whose labels it all has."""
    with github([job("queued", "gpu"), job("queued", "linux", "gpu"), job("queued", "ubuntu-latest")]) as (reader, _):
        assert reader.read() == Reading(2, NOON)


def test_a_job_without_labels_is_not_known_to_be_for_our_runners():
    unlabelled = {**job("queued"), "labels": []}
    with github([unlabelled, job("queued")]) as (reader, _):
        assert reader.read() == Reading(1, NOON)


def test_running_jobs_count_by_the_name_of_their_runner():
    jobs = [job("in_progress", runner=name) for name in ("ours-1", "theirs-1", None)]
    with github(jobs) as (reader, _):
        assert reader.read(runner_prefix="ours-") == Reading(1, NOON)


def test_every_page_and_every_repository_counts():
    runs = [[job("queued")] * 5 for _ in range(7)]
    with github(*runs, page=2) as (reader, double):
        double.jobs["shop/api"] = {99: [job("queued")]}
        assert reader.read(repositories=(REPOSITORY, "shop/api")) == Reading(36, NOON)


def test_an_unchanged_answer_costs_nothing_of_the_rate_limit():
    with github([job("queued")], [job("queued")]) as (reader, double):
        reader.read()
        first = double.counted
        reader.read()
        assert (first, double.counted) == (4, 4)
        double.jobs[REPOSITORY][1].append(job("queued"))
        assert reader.read() == Reading(3, NOON)
        assert double.counted == 5


def test_pages_are_cached_with_the_way_to_the_next_one():
    with github(*[[job("queued")]] * 5, page=2) as (reader, _):
        assert reader.read() == reader.read() == Reading(5, NOON)


def test_once_the_rate_limit_is_used_up_nothing_is_asked_until_it_is_renewed():
    with github([job("queued")], remaining=0, reset=int(after(600).timestamp())) as (reader, double):
        assert_wording(cause(reader.read()))
        asked = len(double.http.asked)
        assert "12:10:00" in cause(reader.read())
        assert len(double.http.asked) == asked
        reader.time = after(599).timestamp()
        assert "12:10:00" in cause(reader.read())
        reader.time, double.remaining = after(600).timestamp(), 5000
        assert reader.read() == Reading(1, NOON)


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_is_waited_for(status):
    refusal = Answer(status, {"message": "secondary rate limit"}, {"Retry-After": "90"})
    with github([job("queued")], refusal=refusal) as (reader, double):
        assert "until 12:01:30 UTC" in cause(reader.read())
        double.refusal = None
        assert "until 12:01:30 UTC" in cause(reader.read())
        reader.time += 91
        assert reader.read() == Reading(1, NOON)


@pytest.mark.parametrize(
    "refusal", [Answer(429, {"message": "slow down"}), Answer(403, {"message": "You exceeded a secondary rate limit."})]
)
def test_a_limit_that_names_no_end_is_waited_for_a_minute(refusal):
    with github([job("queued")], refusal=refusal) as (reader, double):
        assert "until 12:01:00 UTC" in cause(reader.read())
        double.refusal = None
        assert "until 12:01:00 UTC" in cause(reader.read())
        reader.time += 61
        assert reader.read() == Reading(1, NOON)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "9" * 30},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 30},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 400},
    ],
)
def test_no_limit_lasts_longer_than_an_hour(headers):
    with github([job("queued")], refusal=Answer(403, {"message": "slow down"}, headers)) as (reader, double):
        assert "until 13:00:00 UTC" in cause(reader.read())
        double.refusal = None
        reader.time += 3601
        assert reader.read() == Reading(1, NOON)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (
            Answer(403, {"message": "Resource not accessible"}),
            "GitHub forbids it (HTTP 403): let this login read Actions",
        ),
        (Answer(502, raw=b"<html>bad gateway"), "GitHub answered HTTP 502: <html>bad gateway"),
        (Answer(200, raw=b"[]"), "GitHub's answer cannot be read: "),
        (Answer(404, {}), "GitHub has no /repos/shop/web/actions/runs, or does not show it to us"),
        (Answer(200, {"message": "maintenance"}), "GitHub's answer has no list workflow_runs"),
        (Answer(200, {"workflow_runs": None}), "GitHub's answer has no list workflow_runs"),
        (Answer(200, {"workflow_runs": {"id": 1}}), "GitHub's answer has no list workflow_runs"),
        (Answer(200, {"workflow_runs": [None]}), "GitHub's answer has no list workflow_runs"),
        (Answer(200, {"workflow_runs": [{"id": 1}]}), "GitHub's answer has a run without an address"),
        (
            Answer(200, {"workflow_runs": [{"id": 1, "url": "https://x/y"}]}),
            "GitHub's answer has a run without an addr",
        ),
    ],
)
def test_what_goes_wrong_is_missing_with_its_cause(refusal, expected):
    with github([job("queued")], refusal=refusal) as (reader, _):
        sample = reader.read()
    assert cause(sample).startswith(expected)
    assert_wording(cause(sample))
    assert sample.empty_at is None


def test_more_than_can_be_counted_is_missing():
    with github(*[[job("queued")]] * 21, page=2) as (reader, _):
        assert_wording(cause(reader.read()))


def test_a_next_page_of_another_host_gets_no_token():
    document = {"workflow_runs": []}
    refusal = Answer(200, document, {"Link": '<https://elsewhere.example/runs?page=2>; rel="next"'})
    with github([job("queued")], refusal=refusal) as (reader, double):
        assert "next page is not below" in cause(reader.read()), "the first page alone would be too few"
        assert not [each for each in double.http.asked if "page=2" in each.path]


@pytest.mark.parametrize(
    ("link", "following"),
    [
        ('<https://api/runs?page=2>; rel="next"', "https://api/runs?page=2"),
        ('<https://api/runs?page=2>; rel="next"; title="more"', "https://api/runs?page=2"),
        ('<https://api/runs?page=1>; rel="prev", <https://api/runs?page=3>; rel="next"', "https://api/runs?page=3"),
        ('<https://api/runs?page=9>; rel="last"', ""),
        ("", ""),
    ],
)
def test_the_next_page_is_in_the_link_header(link, following):
    assert _next_page(link, "https://api") == following


def test_an_address_may_end_with_a_slash():
    with github([job("queued")]) as (reader, double):
        assert reader.read(api=double.http.address + "/") == Reading(1, NOON)
    assert not [each.path for each in double.http.asked if each.path.startswith("//")]


def test_a_github_that_is_away_is_named():
    port = free_port()
    with github([job("queued")]) as (reader, _):
        found = cause(reader.read(api=f"http://127.0.0.1:{port}"))
    assert_wording(found.rpartition(": ")[0], PORT=port)


def test_a_request_says_what_it_understands_and_who_asks(monkeypatch):
    sent = []
    monkeypatch.setattr(
        http,
        "send",
        lambda request, _: sent.append(request) or http.HttpAnswer(status=200, body=b'{"workflow_runs": []}'),
    )
    adapter = GithubJobs(logins(github=PAT), warn=pytest.fail)
    entry = Github(api="https://api", secret="github", repositories=(REPOSITORY,), labels=("self-hosted",))
    assert read_one(adapter, entry) == Reading(0, NOON)
    assert {(each.service, each.method, each.authorization) for each in sent} == {("GitHub", "GET", "Bearer pat")}
    assert {each.url for each in sent} == {
        f"https://api/repos/shop/web/actions/runs?status={state}&per_page=100" for state in ("queued", "in_progress")
    }
    assert sent[0].headers == {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "node-fleet",
    }


def test_too_little_time_is_late():
    with github(*[[job("queued")]] * 3) as (reader, _), pytest.raises(TimeoutError):
        reader.read(seconds=0.0)


def test_many_old_answers_are_forgotten(monkeypatch):
    monkeypatch.setattr("nodefleet.adapters.sources.github._MOST_CACHED", 3)
    with github([job("queued")], [job("queued")]) as (reader, double):
        reader.read()
        double.jobs[REPOSITORY] = {9: [job("queued")]}
        assert reader.read() == Reading(1, NOON)
        (account,) = reader.adapter._accounts.values()
        assert len(account.answers) == 3


def test_of_an_answer_only_what_is_needed_is_kept():
    """The steps of 50 jobs in each of 2,000 answers would take 800 MiB."""
    steps = [{"name": f"step {number}"} for number in range(20)]
    with github([{**job("queued"), "steps": steps}]) as (reader, _):
        assert reader.read() == reader.read() == Reading(1, NOON)
        (account,) = reader.adapter._accounts.values()
        assert account.answers
        assert "step" not in repr(account.answers)


# ── logins ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rotated_token_is_fetched_again():
    with github([job("queued")], login=[GithubLogin(token="old"), PAT]) as (reader, _):
        assert reader.read() == Reading(1, NOON)


def test_a_refused_token_is_missing():
    with github([job("queued")], login=GithubLogin(token="old")) as (reader, _):
        assert_wording(cause(reader.read()))


def test_an_app_gets_itself_a_token_and_keeps_it_until_shortly_before_its_end():
    with github([job("queued")], login=APP) as (reader, double):
        assert reader.read() == reader.read() == Reading(1, NOON)
        exchanges = [each for each in double.http.asked if each.path.startswith("/app")]
        assert [each.path for each in exchanges] == ["/app/installations/7/access_tokens"]
        double.expires_at = "2026-11-16T14:00:00Z"
        reader.read(now=after(3299))
        assert sum(each.path.startswith("/app") for each in double.http.asked) == 1
        reader.read(now=after(3300))
        assert sum(each.path.startswith("/app") for each in double.http.asked) == 2


def test_an_app_that_github_does_not_know_is_missing():
    with github([job("queued")], login=APP) as (reader, double):
        double._installation = lambda _: Answer(404, {})
        assert_wording(cause(reader.read()))


def test_an_app_that_is_suspended_is_missing_and_what_to_check_is_said():
    with github([job("queued")], login=APP) as (reader, double):
        double._installation = lambda _: Answer(403, {"message": "This installation has been suspended"})
        assert_wording(cause(reader.read()))


def test_the_rate_limit_of_an_apps_token_is_waited_for():
    with github([job("queued")], login=APP) as (reader, double):
        given = double._installation
        double._installation = lambda _: Answer(403, {"message": "secondary rate limit"}, {"Retry-After": "90"})
        assert "until 12:01:30 UTC" in cause(reader.read())
        double._installation = given
        asked = len(double.http.asked)
        reader.read()
        assert len(double.http.asked) == asked
        reader.time += 91
        assert reader.read() == Reading(1, NOON)


def test_a_key_that_is_none_is_missing():
    broken = GithubLogin(app_id="42", installation_id="7", private_key="-----BEGIN RSA PRIVATE KEY-----\nnope")
    with github([job("queued")], login=broken) as (reader, _):
        assert_wording(cause(reader.read()))


@pytest.mark.parametrize("pem", [PEM, PKCS8, PEM.replace("\n", "\\n")], ids=["PKCS#1", "PKCS#8", "one line"])
def test_the_signature_is_what_a_library_verifies(pem):
    signed, _, signature = app_token("42", pem, NOON).rpartition(".")
    KEY.public_key().verify(decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    header, claims = (json.loads(decoded(part)) for part in signed.split("."))
    assert header == {"alg": "RS256", "typ": "JWT"}
    assert claims == {"iss": "42", "iat": int(after(-60).timestamp()), "exp": int(after(540).timestamp())}


def decoded(part):
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_what_is_signed_is_written_without_padding():
    assert [_encode(content) for content in (b"a", b"ab", b"]u", b"\xfb\xff")] == [b"YQ", b"YWI", b"XXU", b"-_8"]


@pytest.mark.parametrize("pem", ["", "x", "MAMCAQA=", "AAAA", "MIIB", "MAA="])
def test_no_key_is_misconfigured(pem):
    with pytest.raises(MisconfiguredError, match="no RSA key"):
        app_token("42", pem, datetime.now(UTC))


@pytest.mark.parametrize("lacking", [1, 10, 900])
def test_a_key_that_was_cut_off_is_misconfigured(lacking):
    whole = b64decode("".join(PEM.splitlines()[1:-1]))
    with pytest.raises(MisconfiguredError, match="no RSA key"):
        app_token("42", b64encode(whole[:-lacking]).decode(), NOON)


def test_a_key_with_something_else_in_it_is_misconfigured():
    with pytest.raises(MisconfiguredError, match="no RSA key"):
        app_token("42", PEM.replace("MII", "M!II", 1), NOON)


# ── offline runners ──────────────────────────────────────────────────────────────────────────────────────────────────


def runner(number, name, status="offline", busy=False):
    return {"id": number, "name": name, "status": status, "busy": busy}


def with_runners(*runners):
    return github([job("queued")], runners={REPOSITORY: list(runners)})


CLEANING = {"runner_prefix": "ours-", "remove_offline_after": timedelta(minutes=10)}


def left(double):
    return [each["name"] for each in double.runners[REPOSITORY]]


def test_an_idle_runner_of_ours_that_stays_offline_is_removed_after_a_while():
    runners = [
        runner(1, "ours-1"),
        runner(2, "ours-2", busy=True),
        runner(3, "ours-3", "online"),
        runner(4, "theirs-1"),
    ]
    with with_runners(*runners) as (reader, double):
        assert reader.read(**CLEANING) == Reading(1, NOON)
        assert len(left(double)) == 4
        reader.read(now=after(599), **CLEANING)
        assert len(left(double)) == 4
        reader.read(now=after(600), **CLEANING)
        assert left(double) == ["ours-2", "ours-3", "theirs-1"]
        assert_wording(reader.warnings)


def test_a_runner_that_came_back_begins_again():
    with with_runners(runner(1, "ours-1")) as (reader, double):
        reader.read(**CLEANING)
        double.runners[REPOSITORY][0]["status"] = "online"
        reader.read(now=after(300), **CLEANING)
        double.runners[REPOSITORY][0]["status"] = "offline"
        reader.read(now=after(700), **CLEANING)
        assert left(double) == ["ours-1"]


@pytest.mark.parametrize("changes", [{"may_change": False}, {"remove_offline_after": None}, {"runner_prefix": None}])
def test_nothing_is_removed_in_a_dry_run_or_unless_the_policy_asks(changes):
    with with_runners(runner(1, "ours-1")) as (reader, double):
        for now in (NOON, after(6000)):
            reader.read(now=now, **{**CLEANING, **changes})
        assert left(double) == ["ours-1"]


def test_a_reader_that_may_change_nothing_removes_nothing():
    with with_runners(runner(1, "ours-1")) as (reader, double):
        careful = Reader(double, may_change=False)
        for now in (NOON, after(6000)):
            careful.read(now=now, **CLEANING)
        assert (left(double), reader.warnings) == (["ours-1"], [])


def test_runners_of_two_repositories_may_have_one_number():
    with with_runners(runner(1, "ours-1")) as (reader, double):
        double.jobs["shop/api"], double.runners["shop/api"] = {}, [runner(1, "ours-1", "online")]
        for now in (NOON, after(600)):
            reader.read(now=now, repositories=(REPOSITORY, "shop/api"), **CLEANING)
        assert left(double) == []
        assert len(double.runners["shop/api"]) == 1


def test_two_pools_whose_runners_have_other_prefixes_each_remove_their_own():
    with with_runners(runner(1, "gpu-1"), runner(2, "arm-1")) as (reader, double):
        for now in (NOON, after(600)):
            for prefix in ("gpu-", "arm-"):
                reader.read(now=now, **{**CLEANING, "runner_prefix": prefix})
        assert left(double) == []


def test_no_time_left_to_remove_runners_is_a_warning(monkeypatch):
    real = http.send

    def send(request, deadline):
        if "/runners" in request.url:
            raise TimeoutError
        return real(request, deadline)

    monkeypatch.setattr(http, "send", send)
    with with_runners(runner(1, "ours-1")) as (reader, _):
        assert reader.read(**CLEANING) == Reading(1, NOON)
        assert_wording(reader.warnings)


def test_a_removal_that_fails_is_a_warning_and_the_reading_stands():
    with with_runners(runner(1, "ours-1")) as (reader, double):
        reader.read(**CLEANING)
        answer = double.http.answer
        double.http.answer = lambda asked: Answer(500) if asked.method == "DELETE" else answer(asked)
        assert reader.read(now=after(900), **CLEANING) == Reading(1, after(900))
        assert_wording(reader.warnings)


@pytest.mark.parametrize("listed", [{"runners": [{"name": "ours-1"}]}, {"runners": [1]}, {"message": "maintenance"}])
def test_runners_that_cannot_be_read_are_a_warning_and_the_reading_stands(listed):
    with with_runners(runner(1, "ours-1")) as (reader, double):
        answer = double.http.answer
        double.http.answer = lambda asked: Answer(200, listed) if "/runners" in asked.path else answer(asked)
        assert reader.read(**CLEANING) == Reading(1, NOON)
        assert len(reader.warnings) == 1
        assert_wording(reader.warnings)
