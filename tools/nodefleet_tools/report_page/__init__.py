"""The report of a scenario that was played: one HTML file that needs nothing else, not even a network.

page       puts it together
fragments  what stands on it without a script: figures, comparison, decisions, expectations
series     the curves, as columns of numbers
page.html, page.css, chart.js, page.js are laid into the file as they are.
"""

from nodefleet_tools.report_page.page import page

__all__ = ["page"]
