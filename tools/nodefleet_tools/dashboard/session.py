"""Who may use the page: the operator who started it, in one browser session.

The link in the terminal carries a token that works once and becomes a cookie that scripts cannot read and that other
sites' pages do not send. Every request must name this server's own address as its Host, so that a foreign name that
resolves to 127.0.0.1 (DNS rebinding) reaches nothing; every POST must carry a token that only the page knows.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

_BYTES = 32


def _secret() -> str:
    return secrets.token_urlsafe(_BYTES)


@dataclass(slots=True)
class Session:
    port: int
    csrf: str = field(default_factory=_secret)
    _token: str = field(default_factory=_secret)  # of the link; empty: it was used
    _cookie: str = field(default_factory=_secret)

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    @property
    def cookie_name(self) -> str:
        """Cookies do not know ports: two dashboards on one computer need two names."""
        return f"nodefleet_{self.port}"

    @property
    def set_cookie(self) -> str:
        return f"{self.cookie_name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def redeem(self, token: str) -> bool:
        """Whether this is the token of the link. It works once."""
        fits = bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())
        if fits:
            self._token = ""
        return fits

    def is_own_host(self, host: str) -> bool:
        return host in {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}

    def is_own_origin(self, origin: str) -> bool:
        """A browser names the page that a POST comes from; other clients name none."""
        return not origin or origin in {f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"}

    def is_signed_in(self, cookies: str) -> bool:
        try:
            held = SimpleCookie(cookies).get(self.cookie_name)
        except CookieError:
            return False
        return held is not None and hmac.compare_digest(held.value.encode(), self._cookie.encode())

    def knows(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())
