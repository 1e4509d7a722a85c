"""Who gets in: the link works once, the cookie is a browser's own, other names and other pages reach nothing."""

from nodefleet_tools.dashboard.session import Session


def token(session: Session) -> str:
    return session.link.partition("token=")[2]


def test_the_link_works_once():
    session = Session(port=8000)
    given = token(session)
    assert session.redeem(given)
    assert not session.redeem(given)
    assert not session.redeem("")


def test_a_wrong_token_does_not_use_the_link_up():
    session = Session(port=8000)
    assert not session.redeem("guess")
    assert session.redeem(token(session))


def test_only_this_servers_own_names_are_its_host():
    session = Session(port=8000)
    assert session.is_own_host("127.0.0.1:8000")
    assert session.is_own_host("localhost:8000")
    for host in ("", "127.0.0.1", "127.0.0.1:8001", "evil.example:8000", "127.0.0.1:8000.evil.example"):
        assert not session.is_own_host(host)


def test_another_pages_origin_is_not_ours():
    session = Session(port=8000)
    assert session.is_own_origin("http://127.0.0.1:8000")
    assert not session.is_own_origin("null")
    assert not session.is_own_origin("https://evil.example")


def test_the_cookie_is_this_sessions_and_this_ports():
    one, other = Session(port=8000), Session(port=8001)
    cookie = one.set_cookie.partition(";")[0]
    assert one.is_signed_in(f"theme=dark; {cookie}")
    assert not other.is_signed_in(cookie)
    assert not one.is_signed_in(f"{one.cookie_name}=guess")
    assert not one.is_signed_in("")
    assert "HttpOnly" in one.set_cookie
    assert "SameSite=Strict" in one.set_cookie
