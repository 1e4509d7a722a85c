# The K3s server's program, which bootstrap.sh fetches. `boot` at every start of the instance and when the stack deployed
# another program, `keep` and `updates` by timers, `snapshot` when the instance goes down, `metrics-login` for operators.

readonly DATA="$ROOT/var/lib/rancher/k3s"
readonly NAMESPACE=node-fleet
readonly RESTORING="$STATE/restoring"
readonly APPLIED="$STATE/applied" # the checksum of the program that last came to its end
readonly UNAPPLIED="$RUN/unapplied" # there while K3s may run with other files than those that are there
readonly WATCHER_FILE=/usr/local/lib/node-fleet/pending.py
readonly AT_EVERY_START="$ROOT/var/lib/cloud/scripts/per-boot/node-fleet"
: "${RESTORE:=newest}" # what user data says
mkdir -p "$STATE"

kubectl() { "$BINARY" kubectl --kubeconfig "$CONFIG/k3s.yaml" "$@"; }

# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

# The value is sent once: asked again with the same content, Secrets Manager makes no new version.
put_secret() {
  local name=$1 file=$2 digest
  digest=$(sha256sum <"$file" | cut -d ' ' -f 1)
  if [[ $digest == "$(cat "$STATE/published-${name//\//-}" 2>/dev/null)" ]]; then return; fi
  aws secretsmanager put-secret-value --secret-id "$name" --client-request-token "$digest" \
    --secret-string "file://$file" --query VersionId --output text || return 1
  echo "$digest" >"$STATE/published-${name//\//-}"
}

# publish NAME <value
publish() {
  local file="$RUN/secret" code=0
  cat >"$file"
  retry 120 put_secret "$1" "$file" || code=$?
  rm -f "$file"
  return "$code"
}

has_answer() {
  local code=0
  read_secret "$1" || code=$?
  ((code == 0 || code == 3))
}

new_token() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# A replaced server must have the same tokens: the snapshots are encrypted with one, the workers know the other.
find_tokens() {
  retry 300 has_answer "$SERVER_TOKEN_SECRET"
  if [[ -z $SECRET ]]; then
    SECRET=$(new_token)
    publish "$SERVER_TOKEN_SECRET" <<<"$SECRET"
  fi
  SERVER_TOKEN=$SECRET
  retry 300 has_answer "$AGENT_TOKEN_SECRET"
  if [[ -z $SECRET ]]; then SECRET=$(cat "$STATE/agent-token" 2>/dev/null || new_token); fi
  AGENT_TOKEN=${SECRET##*:}
  keep "$STATE/agent-token" 0600 <<<"$AGENT_TOKEN"
}

# ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────────

# Into NEWEST and NEWEST_AT; empty and 0 if there is none. That S3 does not answer is not an answer.
find_newest() {
  local newest="sort_by(Contents[?!contains(Key, '/.metadata/')] || \`[]\`, &LastModified)[-1].[Key, LastModified]" said
  said=$(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$SNAPSHOTS/" --query "$newest" --output text) || return 1
  NEWEST='' NEWEST_AT=0
  if [[ $said == None* ]]; then return; fi
  NEWEST=${said%%$'\t'*} NEWEST=${NEWEST##*/}
  NEWEST_AT=$(date -d "${said##*$'\t'}" +%s)
}

# K3s wants the token for this in its configuration: a file that the configuration names is not enough for it.
restore() {
  if [[ -e $RESTORING ]]; then
    say 'an earlier restore did not end: once more'
    rm -rf "$DATA/server/db"
  fi
  if [[ -d $DATA/server/db/etcd ]]; then return; fi
  case $RESTORE in
    nothing) NEWEST='' ;;
    newest) retry 300 find_newest ;;
    *) NEWEST=$RESTORE ;;
  esac
  if [[ -z $NEWEST ]]; then
    say 'no snapshot is taken up: the cluster begins empty'
    return
  fi
  say "restoring $NEWEST"
  touch "$RESTORING"
  timeout 900 "$BINARY" server --cluster-reset --cluster-reset-restore-path="$NEWEST"
  rm -f "$RESTORING"
}

snapshot() { "$BINARY" etcd-snapshot save --name "$1"; }

first_snapshot() {
  retry 300 find_newest
  if [[ -z $NEWEST ]]; then retry 120 snapshot first; fi
}

# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

write_configuration() {
  keep "$CONFIG/config.yaml" 0600 <<YAML
cluster-init: true
token: "$SERVER_TOKEN"
agent-token: "$AGENT_TOKEN"
node-name: "$INSTANCE"
node-ip: "$ADDRESS"
advertise-address: "$ADDRESS"
tls-san:
  - "$ADDRESS"
write-kubeconfig-mode: "0600"
secrets-encryption: true
node-taint:
  - "node-role.kubernetes.io/control-plane=true:NoSchedule"
node-label:
  - "$ZONE_LABEL=$ZONE"
  - "$REGION_LABEL=$REGION"
  - "$TYPE_LABEL=$TYPE"
kubelet-arg:
  - "provider-id=aws:///$ZONE/$INSTANCE"
image-credential-provider-bin-dir: "$PROVIDERS/bin"
image-credential-provider-config: "$PROVIDERS/config.yaml"
etcd-snapshot-schedule-cron: "$SNAPSHOT_CRON"
etcd-snapshot-retention: $SNAPSHOTS_KEPT
etcd-s3: true
etcd-s3-endpoint: "$S3_ENDPOINT"
etcd-s3-region: "$REGION"
etcd-s3-bucket: "$BUCKET"
etcd-s3-folder: "$SNAPSHOTS"
YAML
}

# `pack`: the scheduler prefers the fullest node that fits. All its other scores and rules stay, also that which spreads
# the pods of one controller.
write_scheduler() {
  local addition="$CONFIG/config.yaml.d/scheduler.yaml"
  if [[ $SCHEDULING != pack ]]; then
    if [[ -e $addition ]]; then
      rm -f "$addition"
      CHANGED=1
    fi
    return
  fi
  keep "$CONFIG/scheduler.yaml" 0600 <<YAML
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: "$DATA/server/cred/scheduler.kubeconfig"
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources:
              - { name: cpu, weight: 1 }
              - { name: memory, weight: 1 }
YAML
  keep "$addition" 0600 <<YAML
kube-scheduler-arg:
  - "config=$CONFIG/scheduler.yaml"
YAML
}

write_units() {
  local command=/usr/local/sbin/node-fleet-server
  keep "$UNITS/node-fleet-keep.service" 0644 <<UNIT
[Unit]
Description=Manifests from S3, logins to Secrets Manager
After=k3s.service

[Service]
Type=oneshot
ExecStart=$command keep
UNIT
  keep "$UNITS/node-fleet-keep.timer" 0644 <<'UNIT'
[Unit]
Description=Manifests from S3, logins to Secrets Manager

[Timer]
OnBootSec=10min
OnUnitActiveSec=5min

[Install]
WantedBy=timers.target
UNIT
  keep "$UNITS/node-fleet-updates.service" 0644 <<UNIT
[Unit]
Description=Security updates

[Service]
Type=oneshot
ExecStart=$command updates
UNIT
  keep "$UNITS/node-fleet-updates.timer" 0644 <<'UNIT'
[Unit]
Description=Security updates

[Timer]
OnCalendar=daily
RandomizedDelaySec=6h
Persistent=true

[Install]
WantedBy=timers.target
UNIT
  keep "$ROOT$WATCHER_FILE" 0755 < <(base64 -d <<<"$WATCHER_PROGRAM")
  # A user of its own, who can write nowhere; root only makes its login, which is new at every start.
  keep "$UNITS/node-fleet-pending.service" 0644 <<UNIT
[Unit]
Description=Wakes the autoscaler when pods find no node
After=k3s.service network-online.target
StartLimitIntervalSec=0

[Service]
DynamicUser=yes
RuntimeDirectory=node-fleet-pending
ExecStartPre=+$command pending-login
ExecStart=/usr/bin/python3 -u $WATCHER_FILE
Environment=SERVER=127.0.0.1:6443 REGION=$REGION CLUSTER=$CLUSTER TOPIC=$WAKE_TOPIC
Environment=AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=3 AWS_PAGER=
Restart=always
RestartSec=5s
RuntimeMaxSec=12h
TimeoutStartSec=10min
MemoryMax=192M
CPUQuota=50%
TasksMax=32
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
UNIT
  # Stops before K3s does: what happened since the last snapshot is not lost with the instance.
  keep "$UNITS/node-fleet-snapshot.service" 0644 <<UNIT
[Unit]
Description=A last snapshot when the machine goes down
After=k3s.service network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=$command snapshot
TimeoutStopSec=90s

[Install]
WantedBy=multi-user.target
UNIT
}

# ── another program, another release ─────────────────────────────────────────────────────────────────────────────

checksum_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# Whether the stack deployed another program than the one that was last applied. That S3 does not answer is no news.
has_another_program() {
  local wanted
  wanted=$(aws s3 cp --only-show-errors "s3://$BUCKET/$PROGRAMS/current" -) || return 1
  [[ -n $wanted && $wanted != "$(cat "$APPLIED" 2>/dev/null)" ]]
}

# Before a running server gets another release of K3s, what it knows is saved.
save_before_upgrade() {
  if [[ -x $BINARY ]] && ! has_pinned_checksum "$BINARY" && systemctl is-active --quiet k3s.service; then
    say 'another release of K3s is wanted: taking a snapshot first'
    retry 120 snapshot before-upgrade
  fi
}

fetch_manifests() {
  mkdir -p "$DATA/server/manifests/node-fleet"
  aws s3 sync --only-show-errors --delete "s3://$BUCKET/$MANIFESTS/" "$DATA/server/manifests/node-fleet/"
}

# Prometheus runs as nobody and keeps its readings here.
make_room() {
  mkdir -p "$STATE/prometheus"
  chmod 0711 "$STATE"
  chown 65534:65534 "$STATE/prometheus"
}

# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────────

api_answers() { kubectl get --raw /readyz >"$RUN/readyz"; }
# A restored cluster remembers the instance that was the server before. There is only one.
forget_former_servers() {
  local node
  for node in $(kubectl get nodes -l node-role.kubernetes.io/control-plane -o name); do
    if [[ $node != "node/$INSTANCE" ]]; then kubectl delete "$node"; fi
  done
}

publish_agent_token() {
  local token
  token=$(<"$DATA/server/agent-token")
  if [[ $token != K10*::* ]]; then
    say 'K3s did not write the agent token in its secure form'
    return 1
  fi
  publish "$AGENT_TOKEN_SECRET" <<<"$token"
}

# ── the watcher ──────────────────────────────────────────────────────────────────────────────────────────────────

# Alertmanager wakes the autoscaler too, only later: a watcher that does not start must not fail the boot.
watch_pending_pods() { service node-fleet-pending.service || say 'the watcher for pending pods does not start'; }

make_pending_login() {
  retry 300 account_is_there "$WATCHER"
  retry 120 login_is_made "$WATCHER"
  printf '%s\n' "$TOKEN" >"$RUNTIME_DIRECTORY/token"
  printf '%s\n' "$CA" >"$RUNTIME_DIRECTORY/ca.crt"
  chown --reference="$RUNTIME_DIRECTORY" "$RUNTIME_DIRECTORY/token" "$RUNTIME_DIRECTORY/ca.crt"
}

# ── what is called ───────────────────────────────────────────────────────────────────────────────────────────────

boot() {
  if [[ -e $UNAPPLIED ]]; then CHANGED=1; fi # the last time something came in between
  touch "$UNAPPLIED"
  step 'asking the metadata service who this is'
  retry 120 learn_machine
  step 'fetching K3s'
  save_before_upgrade
  fetch_k3s
  step 'finding the tokens'
  find_tokens
  step 'writing the configuration'
  write_registry_login
  write_configuration
  write_scheduler
  k3s_unit k3s.service notify server
  make_room
  step 'fetching the manifests'
  retry 300 fetch_manifests
  step 'looking for a snapshot'
  restore
  step 'starting K3s'
  service k3s.service
  rm -f "$UNAPPLIED"
  retry 600 api_answers
  forget_former_servers
  step 'publishing the logins'
  rm -f "$STATE"/published-* "$STATE/login-expiry"
  publish_agent_token
  publish_login
  step 'taking the first snapshot, if there is none'
  first_snapshot
  if [[ ! -e $STATE/updated ]]; then echo "$EPOCHSECONDS" >"$STATE/updated"; fi # the image is new
  tell_figures
  CHANGED=0
  write_units
  if ((CHANGED)); then systemctl daemon-reload; fi
  watch_pending_pods
  CHANGED=0
  service node-fleet-snapshot.service
  service node-fleet-keep.timer
  service node-fleet-updates.timer
  checksum_of "$0" >"$APPLIED"
  say "the server is up at https://$ADDRESS:6443"
}

case ${1:-boot} in
  boot)
    exec 9>"$RUN/lock"
    flock 9
    boot
    ;;
  keep)
    exec 9>"$RUN/lock"
    if ! flock -n 9; then exit 0; fi # the instance is starting, which does the same
    if has_another_program; then
      say 'the stack deployed another program: applying it'
      exec "$AT_EVERY_START"
    fi
    step 'keeping manifests and logins'
    retry 60 learn_machine
    # One that fails does not keep the others: without a login the autoscaler can do nothing.
    failed=''
    publish_login || failed+=' login'
    publish_agent_token || failed+=' agent-token'
    retry 60 fetch_manifests || failed+=' manifests'
    tell_figures || failed+=' figures'
    if [[ -n $failed ]]; then
      say "failed:$failed"
      exit 1
    fi
    ;;
  updates)
    step 'installing security updates'
    install_updates
    ;;
  snapshot)
    step 'taking a last snapshot'
    snapshot last
    ;;
  pending-login) # for node-fleet-pending.service
    make_pending_login
    ;;
  metrics-login) # for curl -u
    find_metrics_login
    echo "$METRICS_USER:$METRICS_PASSWORD"
    ;;
  *)
    say "no such command: $1 (boot, keep, updates, snapshot, pending-login or metrics-login)"
    exit 2
    ;;
esac
