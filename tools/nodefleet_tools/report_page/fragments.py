"""What stands on the page without a script: its figures, the comparison, the decisions, the expectations."""

from collections.abc import Iterable
from html import escape

from nodefleet_tools.sim.scenario_result import Check, Mark, MarkKind, ScenarioResult
from nodefleet_tools.sim.summary import Fact, breakdown, compared, facts, money, saving, sentences

_NAMES = {
    MarkKind.GROW: "Grow",
    MarkKind.REPLACE: "Replace",
    MarkKind.SHRINK: "Shrink",
    MarkKind.REMOVED: "Removed",
    MarkKind.WARNING: "Told",
    MarkKind.HAPPENED: "Happened",
}
_COLUMNS = ("Fleet", "Saved", "Bill", "SLO violated", "Node-hours")
_BIG = 4  # so many figures stand out


def summary(played: ScenarioResult) -> str:
    """Three plain sentences, before any figure."""
    return "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(played))


def cards(played: ScenarioResult) -> str:
    return "\n".join(card(fact, big=index < _BIG) for index, fact in enumerate(_ordered(played)))


def _ordered(played: ScenarioResult) -> Iterable[Fact]:
    for fixed in played.fixed[:1]:
        saved = saving(played, fixed)
        word, less = ("Saved against", "less") if saved.usd >= 0 else ("More expensive than", "more")
        label = f"{word} a fixed fleet of {fixed.nodes}"
        yield Fact(label=label, value=f"{abs(saved.percent):.1f} %", note=f"{money(abs(saved.usd))} {less}")
    yield from facts(played)


def card(fact: Fact, *, big: bool) -> str:
    note = f'<span class="note">{escape(fact.note)}</span>' if fact.note else ""
    size = " big" if big else ""
    return (
        f'<div class="card{size}"><dt>{escape(fact.label)}</dt>'
        f"<dd><strong>{escape(fact.value)}</strong>{note}</dd></div>"
    )


def comparison(played: ScenarioResult) -> str:
    """This fleet beside the fixed ones; nothing without any."""
    if not played.fixed:
        return ""
    hours = (played.ends - played.starts).total_seconds() / 3600
    figures = played.figures
    rows = [
        ("<strong>Autoscaled</strong>", "–", figures.usd, figures.violation_minutes, figures.node_hours),
        *(
            (
                f"Fixed at {fixed.nodes}",
                f"{fixed.saved_percent(figures.usd):+.1f} %",
                fixed.usd,
                fixed.violation_minutes,
                fixed.nodes * hours,
            )
            for fixed in played.fixed
        ),
        *(
            (
                f"{fixed.nodes} on Spot, never interrupted",
                f"{100 * (fixed.spot_usd - figures.usd) / fixed.spot_usd:+.1f} %",
                fixed.spot_usd,
                fixed.violation_minutes,
                fixed.nodes * hours,
            )
            for fixed in played.fixed
            if fixed.spot_usd
        ),
    ]
    lines = [
        f"<tr><th scope=row>{name}</th><td>{saved}</td><td>{money(usd)}</td><td>{violated:.1f} min</td>"
        f"<td>{node_hours:.1f}</td></tr>"
        for name, saved, usd, violated, node_hours in rows
    ]
    body = "\n".join(lines)
    columns = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    words = (
        f"{breakdown(played)}. Each fixed fleet played the same load in the same simulated world, with no autoscaler."
    )
    table = f"<table><thead><tr>{columns}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return _section(
        "Compared with fixed fleets", f'<div class="scroll">{table}</div><p class="small">{escape(words)}</p>'
    )


def policies(played: ScenarioResult, other: ScenarioResult) -> str:
    """Two policies on the same day, figure by figure."""
    head, *rows = compared(played, other)
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "\n".join(
        f"<tr><th scope=row>{escape(label)}</th><td>{escape(mine)}</td><td>{escape(theirs)}</td></tr>"
        for label, mine, theirs in rows
    )
    table = f"<table><thead><tr>{columns}</tr></thead>\n<tbody>\n{lines}\n</tbody></table>"
    note = "The same load and seed; the dashed line among the workers is the other policy."
    return _section("Compared with another policy", f'<div class="scroll">{table}</div><p class="small">{note}</p>')


def _section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{heading}</h2>\n{content}\n</section>"


def decisions(played: ScenarioResult) -> str:
    return "\n".join(_decision(index, mark, played) for index, mark in enumerate(played.marks))


def _decision(index: int, mark: Mark, played: ScenarioResult) -> str:
    day = (mark.at.date() - played.starts.date()).days
    clock = f"{mark.at:%H:%M:%S}" + (f" +{day} d" if day else "")
    title = f"<b>{escape(mark.title)}</b> " if mark.title else ""
    return (
        f'<li class="mark {mark.kind.value}" data-mark="{index}" data-kind="{mark.kind.value}"><button type="button">'
        f'<time datetime="{mark.at.isoformat()}">{clock}</time><span class="badge">{_NAMES[mark.kind]}</span>'
        f'<span class="why">{title}{escape(mark.text)}</span></button></li>'
    )


def filters(played: ScenarioResult) -> str:
    """One switch for each kind of mark that there is."""
    there = [kind for kind in MarkKind if any(mark.kind is kind for mark in played.marks)]
    return "\n".join(
        f'<label class="switch {kind.value}"><input type="checkbox" value="{kind.value}" checked> {_NAMES[kind]}'
        f" <span>{sum(mark.kind is kind for mark in played.marks)}</span></label>"
        for kind in there
    )


def checks(played: ScenarioResult) -> str:
    broken = (
        Check(holds=False, what="invariants of the simulated world", wanted="none broken", found=each)
        for each in played.broken
    )
    found = "\n".join(map(_check, (*played.checks, *broken)))
    return _section("Expected and found", f'<ul class="checks">\n{found}\n</ul>') if found else ""


def _check(check: Check) -> str:
    sign, word = ("✓", "holds") if check.holds else ("✗", "fails")
    expected = f'<span>{escape(check.what)} <span class="wanted">{escape(check.wanted)}</span></span>'
    found = f'<span class="found">{escape(check.found)}</span>'
    return f'<li class="{word}"><span class="sign" aria-label="{word}">{sign}</span>{expected}{found}</li>'


def verdict(played: ScenarioResult) -> str:
    failed = sum(not check.holds for check in played.checks) + len(played.broken)
    if failed:
        return f'<span class="verdict fails">{failed} of {len(played.checks)} expectations fail</span>'
    if not played.checks:
        return ""
    all_hold = f"all {count} expectations hold" if (count := len(played.checks)) > 1 else "the expectation holds"
    return f'<span class="verdict holds">{all_hold}</span>'
