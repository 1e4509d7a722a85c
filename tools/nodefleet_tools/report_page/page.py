"""Puts the report together. Everything is in the file itself: styles, scripts and data."""

import json
import re
import shlex
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from nodefleet_tools.report_page import fragments
from nodefleet_tools.report_page.series import series
from nodefleet_tools.sim.scenario_result import ScenarioResult

_HERE = "nodefleet_tools.report_page"
_MODULE = re.compile(r"^export \{.*\};\n", re.MULTILINE)


def page(played: ScenarioResult, other: ScenarioResult | None = None, options: Sequence[str] = ()) -> str:
    """The whole report as one HTML text. `other`: the same day with another policy, beside it. `options`: what
    `nodefleet simulate` takes to play it again, if more than the scenario's name."""
    limits = ", ".join(f"{pool.name} {pool.limits.min}–{pool.limits.max}" for pool in played.policy.pools)
    again = (*(options or ("--scenario", played.name)), "--seed", str(played.seed))
    return Template(text_of("page.html")).substitute(
        title=escape(played.name.replace("-", " ").capitalize()),
        about=escape(played.about),
        when=f"{played.starts:%A, %d %B %Y, %H:%M} to {played.ends:%H:%M} UTC",
        seed=str(played.seed),
        limits=escape(limits),
        repeat=escape(shlex.join(["nodefleet", "simulate", *again, "--report", "report.html"])),
        verdict=fragments.verdict(played),
        summary=fragments.summary(played),
        cards=fragments.cards(played),
        comparison=fragments.comparison(played) + (fragments.policies(played, other) if other else ""),
        decisions=fragments.decisions(played),
        filters=fragments.filters(played),
        checks=fragments.checks(played),
        style=text_of("page.css"),
        script=script("page.js"),
        data=embedded(series(played, other)),
    )


def script(name: str) -> str:
    """The drawing code and the page's own, as one classic script: a single file has no modules."""
    return f'"use strict";\n{_MODULE.sub("", text_of("chart.js"))}{text_of(name)}'


def text_of(name: str) -> str:
    return files(_HERE).joinpath(name).read_text(encoding="utf-8")


def embedded(data: object) -> str:
    """JSON that no text in it can break out of."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
