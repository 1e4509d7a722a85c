import pytest

from nodefleet.adapters.credentials import ApiLogin, GithubLogin, MetricsLogin, RedisLogin, SlackHook
from nodefleet.errors import MisconfiguredError
from support.sentences import is_phrase
from support.wording import assert_wording

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
WORD = "s3cret"
HOOK = "https://hooks.slack.com/services/T000/B000/abcdef"


@pytest.mark.parametrize(
    "login",
    [
        ApiLogin(token=WORD, ca=CA),
        ApiLogin(token=WORD, ca=CA, metrics_username="node-fleet", metrics_password=WORD),
        MetricsLogin(username="ana", password=WORD),
        MetricsLogin(token=WORD),
        SlackHook(url=f"https://hooks.slack.com/services/T000/B000/{WORD}"),
        RedisLogin(username="ana", password=WORD),
        GithubLogin(token=WORD),
        GithubLogin(app_id="1", installation_id="2", private_key=WORD),
    ],
)
def test_no_login_shows_its_secret(login):
    assert WORD not in repr(login)
    assert WORD not in str(login)
    assert any(WORD in value for value in login.secrets())


@pytest.mark.parametrize("login", [MetricsLogin(ca=CA), RedisLogin(ca=CA)])
def test_an_authority_alone_is_no_secret(login):
    assert login.secrets() == ()


def test_the_encoded_form_of_a_password_is_secret_too():
    login = MetricsLogin(username="ana", password=WORD)
    assert login.header().removeprefix("Basic ") in login.secrets()


@pytest.mark.parametrize(
    ("metrics", "secret"),
    [
        ({}, (WORD,)),
        ({"metrics_username": "ana"}, (WORD,)),
        ({"metrics_password": "half"}, (WORD, "half")),
        ({"metrics_username": "ana", "metrics_password": "p"}, (WORD, "p", "YW5hOnA=")),
    ],
)
def test_half_a_login_to_prometheus_is_secret_too(metrics, secret):
    assert ApiLogin(token=WORD, ca=CA, **metrics).secrets() == secret


@pytest.mark.parametrize("url", [HOOK, "https://hooks.slack-gov.com/services/x", "http://127.0.0.1:8080/hook"])
def test_a_webhook_is_slacks_own_or_on_loopback(url):
    assert SlackHook(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://hooks.slack.com/",
        "http://hooks.slack.com/services/x",
        "https://hooks.slack.com.evil.example/services/x",
        "https://evil.example/https://hooks.slack.com/x",
        "http://127.0.0.1.evil.example/x",
        "http://169.254.169.254/latest",
        f"{HOOK} ",
    ],
)
def test_messages_go_nowhere_else(url):
    with pytest.raises(MisconfiguredError) as problem:
        SlackHook(url=url)
    assert_wording(str(problem.value))
    assert_wording(str(problem.value))


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"token": "xoxp-1"}, "token is not a bot token of Slack (xoxb-…)"),
        ({"channel": "general"}, "channel is not a channel's id (C…, in the channel's details)"),
        ({"api": "https://evil.example"}, "api is not an address of Slack"),
    ],
)
def test_what_is_wrong_with_a_bot_token_is_said(changes, wrong):
    with pytest.raises(MisconfiguredError) as problem:
        SlackHook(**{"token": "xoxb-1", "channel": "C0123456789", **changes})
    assert str(problem.value) == wrong


@pytest.mark.parametrize(
    "api",
    [
        "http://slack.com/api",
        "https://slack.com.evil.example/api",
        "https://evil.example/slack.com/api",
        "http://169.254.169.254/latest",
    ],
)
def test_a_bot_token_goes_to_slack_only(api):
    bot = {"token": f"xoxb-{WORD}", "channel": "C0123456789"}
    assert SlackHook(**bot).api == "https://slack.com/api"
    with pytest.raises(MisconfiguredError):
        SlackHook(**bot, api=api)


@pytest.mark.parametrize(
    ("kind", "values", "cause"),
    [
        (ApiLogin, {"token": "", "ca": CA}, "token is empty"),
        (ApiLogin, {"token": "two words", "ca": CA}, "token has characters that no HTTP header can carry"),
        (ApiLogin, {"token": "a\nb", "ca": CA}, "token has characters that no HTTP header can carry"),
        (ApiLogin, {"token": "tökén", "ca": CA}, "token has characters that no HTTP header can carry"),
        (ApiLogin, {"token": "t", "ca": "MIIB"}, "ca is not a certificate in PEM form"),
        (MetricsLogin, {}, "token is missing"),
        (MetricsLogin, {"username": "ana"}, "password is missing"),
        (MetricsLogin, {"password": "p"}, "username is missing"),
        (MetricsLogin, {"token": "t", "username": "ana"}, "token and username are both there: only one can be used"),
        (MetricsLogin, {"token": "a b"}, "token has characters that no HTTP header can carry"),
        (MetricsLogin, {"username": "a:b", "password": "p"}, "username has a colon"),
        (MetricsLogin, {"token": "t", "ca": "MIIB"}, "ca is not a certificate in PEM form"),
        (MetricsLogin, {"username": "ana", "ca": CA}, "password is missing"),
        (GithubLogin, {"token": "t", "ca": "MIIB"}, "ca is not a certificate in PEM form"),
        (RedisLogin, {"password": ""}, "password is empty"),
        (RedisLogin, {"username": "ana", "ca": CA}, "password is empty"),
        (RedisLogin, {"password": "p", "ca": "MIIB"}, "ca is not a certificate in PEM form"),
        (GithubLogin, {}, "app_id and installation_id and private_key missing"),
        (GithubLogin, {"app_id": "1", "installation_id": "2"}, "private_key missing"),
        (GithubLogin, {"app_id": "1", "installation_id": "x", "private_key": "k"}, "installation_id is no number"),
        (GithubLogin, {"token": "t", "app_id": "1"}, "token and a GitHub App are both there: only one can be used"),
        (GithubLogin, {"token": "a b"}, "token has characters that no HTTP header can carry"),
    ],
)
def test_what_is_wrong_with_a_login_is_told_when_it_is_made(kind, values, cause):
    with pytest.raises(MisconfiguredError, match=cause) as raised:
        kind(**values)
    assert is_phrase(str(raised.value))
