"""Signs, headlines and figures of a message. What each kind of alert is called is in the catalogue (domain/alerts)."""

from collections.abc import Mapping

from nodefleet.domain.alerts import CATALOGUE, AlertKind, Severity

SIGNS: Mapping[Severity, str] = {
    Severity.CRITICAL: "🔴",
    Severity.WARNING: "🟠",
    Severity.INFO: "🔵",
    Severity.OVER: "🟢",
}
DRY = "Dry run: nothing was done."
DRY_TODO = "Nothing. To let the autoscaler act by itself, take `dry_run` out of the policy."


def nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def headline(kind: AlertKind, change: int = 0) -> str:
    spec = CATALOGUE[kind]
    return spec.counted.format(nodes=nodes(abs(change))) if spec.counted and change else spec.headline


def size(now: int | None, change: int) -> str:
    """3 → 4, or just 4, or +1; nothing if nothing is known."""
    signed = f"{'+' if change > 0 else '−'}{abs(change)}" if change else ""
    if now is None:
        return signed
    return f"{now - change} → {now}" if change else str(now)


def cost(usd_per_day: float | None) -> str:
    """≈ +$0.96 per day; nothing if it is not known."""
    if usd_per_day is None:
        return ""
    shown = f"{abs(usd_per_day):,.2f}"
    return "no change" if shown == "0.00" else f"≈ {'+' if usd_per_day > 0 else '−'}${shown} per day"
