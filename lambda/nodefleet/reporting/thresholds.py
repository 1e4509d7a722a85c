"""When a rule speaks up. Each number with its unit and its reason."""

from dataclasses import dataclass

from nodefleet.domain.policy.settings import NODES, PERCENT, setting

HOURS = "h"
HOURS_PER_MONTH = 365 * 24 / 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    # ── trust ────────────────────────────────────────────────────────────────────────────────────────────────────
    enough_hours: float = setting(84, HOURS, "half a week: less does not show its rhythm, so nothing is advised")
    whole_percent: float = setting(95, PERCENT, "of the week watched: less is said in the first sentence")
    unpriced_percent: float = setting(5, PERCENT, "of node-hours without a price: with more, costs are not compared")
    readable_percent: float = setting(50, PERCENT, "of the watched time: a reading that is known less proves nothing")
    most_advice: int = setting(5, "", "nobody does more than that in a week")
    most_pools: int = setting(10, "", "told one by one; the rest is added up")

    # ── min and max ──────────────────────────────────────────────────────────────────────────────────────────────
    at_max_percent: float = setting(5, PERCENT, "of the watched time at max: more than a rare peak")
    at_max_told: int = setting(3, "times", "that the fleet asked for more than max: not a single accident")
    raise_max_by: float = setting(1.5, "×", "at most in one week: behind a limit the true demand is not seen")
    far_below_max: float = setting(0.5, "× max", "a peak below this leaves half of max unused")
    max_above_peak: float = setting(2, "× peak", "what a lower max still leaves for a busier week")
    least_lower: int = setting(3, NODES, "that max could be lower by: less is not worth a change")
    at_min_percent: float = setting(15, PERCENT, "of the watched time idle at min: more than a short night")
    least_min: int = setting(2, NODES, "one may fail and work goes on")
    packed_percent: float = setting(90, PERCENT, "of a node that pods can fill on the mean: they do not fit seamlessly")

    # ── requests and types ───────────────────────────────────────────────────────────────────────────────────────
    requests_over_use: float = setting(1.5, "×", "requests this far above use are guesses, not measurements")
    requests_headroom: float = setting(1.3, "× busy use", "for the peaks within an hour that its mean hides")
    requests_fill_percent: float = setting(50, PERCENT, "of the nodes asked for: below this requests do not size them")
    busy_quantile: float = setting(0.95, "", "of the hours: the busy ones, without the odd outlier")
    least_nodes_saved: float = setting(0.5, NODES, "on the mean: less is lost in the rounding to whole nodes")
    lopsided: float = setting(2, "×", "one resource needed so much more than the other: the type has the wrong shape")
    needed_percent: float = setting(50, PERCENT, "of a node at least, of what is scarce: otherwise min sizes the fleet")
    cheaper_percent: float = setting(10, PERCENT, "a type must save this much to be worth the change")

    # ── Spot ─────────────────────────────────────────────────────────────────────────────────────────────────────
    interruptions: int = setting(3, "", "in the week: fewer are chance")
    hours_per_interruption: float = setting(
        100, "Spot node-hours", "a node that lives shorter costs more than it saves"
    )
    calm_hours_per_interruption: float = setting(1000, "Spot node-hours", "a node that lives six weeks is safe enough")
    known_spot_hours: float = setting(150, "Spot node-hours", "about a node for a week: less is no experience")
    few_types: int = setting(4, "types", "with fewer EC2 has little to choose from")
    less_spot: float = setting(20, "points", "a change that can be felt, and undone")
    usual_spot_percent: float = setting(70, PERCENT, "the default: the rest keeps running when Spot is taken")
    spot_gap: float = setting(15, "points", "below what the policy aims at: more than rounding to whole nodes")
    shortages: int = setting(3, "times", "that EC2 had no capacity: not a single accident")


USUAL = Thresholds()
