"""The week in figures, and what could be better. Pure.

period            which hours a report is about
figures           a pool's week: sums and means of what its hours recorded
cost              what a fixed fleet would have cost instead
thresholds        when a rule speaks up, each number with its reason
case              what a rule of advice looks at
advise_limits     … min and max
advise_requests   … what pods ask for against what they use
advise_types      … instance types
advise_spot       … Spot
advice            all of it together: no two that contradict, the best first
weekly            the report as data
amounts, words    … and as sentences
"""
