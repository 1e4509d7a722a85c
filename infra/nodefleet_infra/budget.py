"""A mail before the month has cost more than was meant. AWS's own budgets are free; they look some times a day."""

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from nodefleet_infra.config import BudgetConfig
from nodefleet_infra.names import Names

SPENT_PERCENT, FORECAST_PERCENT = 80, 100  # most of it is gone; all of it is going to be


class Budget(pulumi.ComponentResource):
    def __init__(
        self,
        name: str,
        names: Names,
        config: BudgetConfig,
        emails: Sequence[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:accounts:Budget", name, None, opts)
        # A tag counts only after an operator has activated it as a cost allocation tag of the account (docs/deploy.md).
        only_ours = [aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=[f"user:Stack${names.stack}"])]
        aws.budgets.Budget(
            name,
            name=names.of("month"),
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=f"{config.monthly_usd:g}",
            limit_unit="USD",
            cost_filters=None if config.whole_account else only_ours,
            notifications=[
                aws.budgets.BudgetNotificationArgs(
                    comparison_operator="GREATER_THAN",
                    notification_type=kind,
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    subscriber_email_addresses=list(config.emails or emails),
                )
                for kind, percent in (("ACTUAL", SPENT_PERCENT), ("FORECASTED", FORECAST_PERCENT))
            ],
            tags=names.tags(names.of("month")),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
