"""What a stack has only if its configuration asks for it: a load balancer, grants on a key, a budget. Made in moto, as
`aws_resources.py` makes the rest."""

from typing import Any

from support.infra_on_moto import ACCOUNT_ID, Answer, Inputs, MotoCloud, _listed, _without, valid_request


class OptionalResources(MotoCloud):
    # ── a way in ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _LoadBalancer(self, inputs: Inputs) -> Answer:  # noqa: N802  # these methods have the resources' names
        own = ("loadBalancerType", "internal", "enableCrossZoneLoadBalancing", "enableDeletionProtection", "tags")
        plain = {**_without(inputs, *own), "type": inputs["loadBalancerType"], "tags": _listed(inputs["tags"])}
        plain["scheme"] = "internal" if inputs["internal"] else "internet-facing"
        client = self.client("elbv2")
        (made,) = client.create_load_balancer(**valid_request("elbv2", "CreateLoadBalancer", plain))["LoadBalancers"]
        arn = str(made["LoadBalancerArn"])
        protected = {"Key": "deletion_protection.enabled", "Value": str(inputs["enableDeletionProtection"]).lower()}
        client.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=[protected])
        return arn, {"arn": arn, "dnsName": made["DNSName"]}

    def _change_LoadBalancer(self, identity: str, _: Inputs, news: Inputs) -> None:  # noqa: N802
        protected = {"Key": "deletion_protection.enabled", "Value": str(news["enableDeletionProtection"]).lower()}
        self.client("elbv2").modify_load_balancer_attributes(LoadBalancerArn=identity, Attributes=[protected])

    def _remove_LoadBalancer(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("elbv2").delete_load_balancer(LoadBalancerArn=identity)  # moto refuses what is protected

    def _TargetGroup(self, inputs: Inputs) -> Answer:  # noqa: N802
        check = inputs["healthCheck"]
        plain: dict[str, Any] = {
            **_without(inputs, "healthCheck", "tags", "preserveClientIp", "deregistrationDelay"),
            "healthCheckProtocol": check["protocol"],
            "healthCheckIntervalSeconds": check["interval"],
            "healthyThresholdCount": check["healthyThreshold"],
            "unhealthyThresholdCount": check["unhealthyThreshold"],
            "tags": _listed(inputs["tags"]),
        }
        request = valid_request("elbv2", "CreateTargetGroup", plain)
        (made,) = self.client("elbv2").create_target_group(**request)["TargetGroups"]
        return made["TargetGroupArn"], {"arn": made["TargetGroupArn"]}

    def _remove_TargetGroup(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("elbv2").delete_target_group(TargetGroupArn=identity)

    def _TargetGroupAttachment(self, inputs: Inputs) -> Answer:  # noqa: N802
        self.client("elbv2").register_targets(**_targets(inputs))
        return f"{inputs['targetGroupArn']}-{inputs['targetId']}", {}

    def _remove_TargetGroupAttachment(self, _: str, known: Inputs) -> None:  # noqa: N802
        self.client("elbv2").deregister_targets(**_targets(known))

    def _Listener(self, inputs: Inputs) -> Answer:  # noqa: N802
        plain = {**_without(inputs, "tags"), "tags": _listed(inputs["tags"])}
        (made,) = self.client("elbv2").create_listener(**valid_request("elbv2", "CreateListener", plain))["Listeners"]
        return made["ListenerArn"], {"arn": made["ListenerArn"]}

    def _remove_Listener(self, identity: str, _: Inputs) -> None:  # noqa: N802
        self.client("elbv2").delete_listener(ListenerArn=identity)

    # ── a key of one's own ───────────────────────────────────────────────────────────────────────────────────────

    def _Grant(self, inputs: Inputs) -> Answer:  # noqa: N802
        made = self.client("kms").create_grant(**valid_request("kms", "CreateGrant", inputs))
        return f"{inputs['keyId']}:{made['GrantId']}", {"grantId": made["GrantId"]}

    def _remove_Grant(self, _: str, known: Inputs) -> None:  # noqa: N802
        self.client("kms").revoke_grant(KeyId=known["keyId"], GrantId=known["grantId"])

    # ── a budget ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _Budget(self, inputs: Inputs) -> Answer:  # noqa: N802
        told = [
            {
                "Notification": {
                    "NotificationType": each["notificationType"],
                    "ComparisonOperator": each["comparisonOperator"],
                    "Threshold": float(each["threshold"]),
                    "ThresholdType": each["thresholdType"],
                },
                "Subscribers": [
                    {"SubscriptionType": "EMAIL", "Address": address} for address in each["subscriberEmailAddresses"]
                ],
            }
            for each in inputs["notifications"]
        ]
        budget = {
            "BudgetName": inputs["name"],
            "BudgetLimit": {"Amount": inputs["limitAmount"], "Unit": inputs["limitUnit"]},
            "TimeUnit": inputs["timeUnit"],
            "BudgetType": inputs["budgetType"],
        }
        self.client("budgets").create_budget(AccountId=ACCOUNT_ID, Budget=budget, NotificationsWithSubscribers=told)
        return f"{ACCOUNT_ID}:{inputs['name']}", {}

    def _remove_Budget(self, _: str, known: Inputs) -> None:  # noqa: N802
        self.client("budgets").delete_budget(AccountId=ACCOUNT_ID, BudgetName=known["name"])


def _targets(inputs: Inputs) -> dict[str, Any]:
    target = {"Id": inputs["targetId"], "Port": int(inputs["port"])}
    return {"TargetGroupArn": inputs["targetGroupArn"], "Targets": [target]}
