"""Where everything is kept that outlives a run: the table, the buckets, the secrets.

In a production stack all of it is protected: Pulumi refuses to delete or replace it, and so a `pulumi destroy` as a
whole, in its preview. A bucket's own settings are never deleted before the bucket: one that stays because it holds
something, or because an operator unprotected the wrong resource, stays private, encrypted, versioned and TLS-only.

Secrets are made empty. The master fills its own; Slack's webhook comes from an operator. None passes through Pulumi
unless an operator wants it to (`pulumi config set --secret node-fleet:slackWebhook`).
"""

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT, TTL
from nodefleet_infra.interfaces import BucketRef, ClusterSecrets, Place, SecretRef, StateFacts
from nodefleet_infra.names import Names

KEEP_LOOKS_DAYS = 30
RECOVERY_DAYS = 30  # of a production server's token: Secrets Manager's longest; snapshots are useless without it
NO_VALUE = "{}"  # of a parameter that an operator has yet to fill
KEEP_DELETED_BACKUPS_DAYS = 7  # a master that was taken over cannot destroy them at once


class State(pulumi.ComponentResource):
    gives: StateFacts
    table: aws.dynamodb.Table

    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        clusters: Sequence[str],
        *,
        production: bool,
        lean: bool = False,
        webhook: pulumi.Output[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:state:State", name, None, opts)
        self._names, self._place, self._production = names, place, production
        self._own = pulumi.ResourceOptions(parent=self)
        self._protected = pulumi.ResourceOptions(parent=self, protect=production)
        self._with_bucket = pulumi.ResourceOptions(parent=self, protect=production, retain_on_delete=True)
        self.table = self._table()
        looks = self._bucket("looks", [_forget_after(KEEP_LOOKS_DAYS)], versions=False)
        backups = self._bucket("backups", [_forget_deleted_after(KEEP_DELETED_BACKUPS_DAYS)], versions=True)
        secrets = {cluster: self._secrets(cluster) for cluster in clusters}
        slack = self._slack_parameter(webhook) if lean else self._slack_secret(webhook)
        self.gives = StateFacts(
            table=self.table.name,
            table_arn=self.table.arn,
            stream_arn=self.table.stream_arn,
            looks=looks,
            backups=backups,
            secrets=secrets,
            slack=slack,
        )
        self.register_outputs({})

    def record(self, cluster: str, what: str, item: pulumi.Input[str]) -> pulumi.Resource:
        """One of the stack's records in the table."""
        return aws.dynamodb.TableItem(
            f"{cluster}-{what}",
            table_name=self.table.name,
            hash_key=PARTITION,
            range_key=SORT,
            item=item,
            opts=self._own,
        )

    def _table(self) -> aws.dynamodb.Table:
        return aws.dynamodb.Table(
            "table",
            name=self._names.of("state"),
            billing_mode="PAY_PER_REQUEST",
            hash_key=PARTITION,
            range_key=SORT,
            attributes=[{"name": PARTITION, "type": "S"}, {"name": SORT, "type": "S"}],
            ttl={"attribute_name": TTL, "enabled": True},
            stream_enabled=True,
            stream_view_type="NEW_IMAGE",
            point_in_time_recovery={"enabled": True},
            server_side_encryption={"enabled": True},
            deletion_protection_enabled=self._production,
            tags=self._names.tags(self._names.of("state")),
            opts=self._protected,
        )

    # ── buckets ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _bucket(
        self, name: str, rules: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict], *, versions: bool
    ) -> BucketRef:
        """Private, encrypted, by TLS only."""
        full = self._names.of(name, self._place.account)  # names of buckets are the whole world's
        bucket = aws.s3.Bucket(
            name,
            bucket=full,
            force_destroy=not self._production,
            tags=self._names.tags(full),
            opts=self._protected,
        )
        aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self._with_bucket,
        )
        aws.s3.BucketOwnershipControls(
            name, bucket=bucket.id, rule={"object_ownership": "BucketOwnerEnforced"}, opts=self._with_bucket
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.id,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=self._with_bucket,
        )
        if versions:
            aws.s3.BucketVersioning(
                name, bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=self._with_bucket
            )
        aws.s3.BucketLifecycleConfiguration(name, bucket=bucket.id, rules=rules, opts=self._with_bucket)
        aws.s3.BucketPolicy(name, bucket=bucket.id, policy=bucket.arn.apply(_tls_only), opts=self._with_bucket)
        return BucketRef(name=bucket.bucket, arn=bucket.arn)

    # ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _secrets(self, cluster: str) -> ClusterSecrets:
        names = self._names
        return ClusterSecrets(
            api=self._secret(f"{cluster}-api", names.api_secret(cluster), "The autoscaler's Kubernetes login", cluster),
            agent_token=self._secret(
                f"{cluster}-agent-token", names.agent_token_secret(cluster), "What workers join with", cluster
            ),
            server_token=self._secret(
                f"{cluster}-server-token",
                names.server_token_secret(cluster),
                "What the master restores with",
                cluster,
                recovery_days=RECOVERY_DAYS if self._production else 0,
            ),
        )

    def _slack_secret(self, webhook: pulumi.Output[str] | None) -> SecretRef:
        slack = self._secret("slack", self._names.slack_secret, "Slack's webhook")
        if webhook is not None:
            aws.secretsmanager.SecretVersion(
                "slack-webhook",
                secret_id=slack.arn,
                secret_string=webhook.apply(_slack_login),  # secret, as the webhook is
                opts=self._own,
            )
        return slack

    def _slack_parameter(self, webhook: pulumi.Output[str] | None) -> SecretRef:
        """Parameter Store knows no empty parameter. A value that an operator writes later is left alone by `up`, but
        `pulumi refresh` reads it into the state, where it is encrypted: the reason why the cluster's tokens, which
        must not be there, stay in Secrets Manager."""
        kept = None if webhook is not None else pulumi.ResourceOptions(ignore_changes=["value"])
        full = self._names.slack_parameter
        parameter = aws.ssm.Parameter(
            "slack",
            name=full,
            description="Slack's webhook",
            type="SecureString",
            value=webhook.apply(_slack_login) if webhook is not None else NO_VALUE,
            tags=self._names.tags(full),
            opts=pulumi.ResourceOptions.merge(self._protected, kept),
        )
        return SecretRef(name=full, arn=parameter.arn)

    def _secret(
        self, name: str, full: str, description: str, cluster: str = "", *, recovery_days: int = 0
    ) -> SecretRef:
        """Without days of recovery: what can be made again, because a name that waits for its deletion cannot be used
        by the next `up`."""
        secret = aws.secretsmanager.Secret(
            name,
            name=full,
            description=description,
            recovery_window_in_days=recovery_days,
            tags=self._names.tags(full, cluster=cluster),
            opts=self._protected,
        )
        return SecretRef(name=full, arn=secret.arn)


def _slack_login(webhook: str) -> str:
    return json.dumps({"url": webhook})


def _forget_after(days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgsDict:
    return {
        "id": f"forget-after-{days}-days",
        "status": "Enabled",
        "filter": {"prefix": ""},
        "expiration": {"days": days},
        "abort_incomplete_multipart_upload": {"days_after_initiation": 1},
    }


def _forget_deleted_after(days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgsDict:
    """K3s itself deletes the snapshots that are too many."""
    return {
        "id": f"forget-deleted-after-{days}-days",
        "status": "Enabled",
        "filter": {"prefix": ""},
        "noncurrent_version_expiration": {"noncurrent_days": days},
        "expiration": {"expired_object_delete_marker": True},
        "abort_incomplete_multipart_upload": {"days_after_initiation": 1},
    }


def _tls_only(arn: str) -> str:
    refused = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [refused]})
