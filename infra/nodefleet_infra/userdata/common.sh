set -euo pipefail
umask 077
export AWS_DEFAULT_REGION="$REGION" AWS_PAGER='' AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=5

readonly BINARY="$ROOT/usr/local/bin/k3s"
readonly CONFIG="$ROOT/etc/rancher/k3s"
readonly UNITS="$ROOT/etc/systemd/system"
readonly RUN="$ROOT/run/node-fleet"
readonly METADATA='http://169.254.169.254/latest'
DOING='starting'
CHANGED=0
mkdir -p "$RUN"

say() { TZ=UTC printf '%(%FT%TZ)T node-fleet: %s\n' -1 "$*"; }

step() {
  DOING=$1
  say "$DOING"
}

# Whoever looks at the console of an instance that never became a node must see why.
finish() {
  local code=$?
  if ((code != 0)); then
    say "FAILED while $DOING (exit $code)" | tee -a "$ROOT/dev/console" >&2 || true
  fi
}
trap finish EXIT

# retry SECONDS COMMAND…: pauses of 1, 2, 4 … 20 s, until the command works or the pauses add up to SECONDS.
retry() {
  local patience=$1 pause=1 waited=0
  shift
  until "$@"; do
    if ((waited >= patience)); then
      say "gave up after ${waited} s of pauses: $1"
      return 1
    fi
    say "not yet: $1; again in ${pause} s"
    sleep "$pause"
    waited=$((waited + pause))
    pause=$((pause * 2 > 20 ? 20 : pause * 2))
  done
}

# keep FILE MODE <text: the file has this content afterwards. CHANGED tells whether it had another one before.
keep() {
  local file=$1 mode=$2
  mkdir -p "$(dirname "$file")"
  cat >"$file.fresh"
  chmod "$mode" "$file.fresh"
  if cmp -s "$file.fresh" "$file"; then
    rm -f "$file.fresh"
  else
    mv -f "$file.fresh" "$file"
    CHANGED=1
  fi
}

metadata() { curl -sf -m 3 -H "X-aws-ec2-metadata-token: $SESSION" "$METADATA/meta-data/$1"; }

learn_machine() {
  SESSION=$(curl -sf -m 3 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$METADATA/api/token") &&
    INSTANCE=$(metadata instance-id) &&
    ZONE=$(metadata placement/availability-zone) &&
    TYPE=$(metadata instance-type) &&
    ADDRESS=$(metadata local-ipv4)
}

has_pinned_checksum() { echo "$BINARY_SHA256  $1" | sha256sum --check --status; }

download_k3s() {
  curl -fsSL --connect-timeout 10 --max-time 240 -o "$BINARY.fresh" "$BINARY_URL" || return 1
  if ! has_pinned_checksum "$BINARY.fresh"; then
    rm -f "$BINARY.fresh"
    say "what came from $BINARY_URL does not have the pinned checksum $BINARY_SHA256"
    return 1
  fi
  chmod 0755 "$BINARY.fresh"
  mv -f "$BINARY.fresh" "$BINARY"
  CHANGED=1
}

fetch_k3s() {
  mkdir -p "$(dirname "$BINARY")"
  if [[ -x $BINARY ]] && has_pinned_checksum "$BINARY"; then return; fi
  retry 180 download_k3s
}

# read_secret NAME: its value into SECRET. 3 if it has none yet.
read_secret() {
  if SECRET=$(aws secretsmanager get-secret-value --secret-id "$1" --query SecretString --output text 2>"$RUN/error"); then
    return 0
  fi
  SECRET=''
  if grep -q ResourceNotFoundException "$RUN/error"; then return 3; fi
  cat "$RUN/error" >&2
  return 1
}

# cloud-init runs user data once in an instance's life; what lies here it runs at every start.
run_at_every_start() { keep "$ROOT/var/lib/cloud/scripts/per-boot/node-fleet" 0700 <"$0"; }

# service UNIT: it runs, with the files that are there now.
service() {
  if ((CHANGED)); then systemctl daemon-reload; fi
  systemctl enable "$1"
  if ((CHANGED)) && systemctl is-active --quiet "$1"; then
    systemctl restart "$1"
  else
    systemctl start "$1"
  fi
}

# k3s_unit UNIT TYPE COMMAND
k3s_unit() {
  keep "$UNITS/$1" 0644 <<UNIT
[Unit]
Description=K3s $3
Wants=network-online.target
After=network-online.target

[Service]
Type=$2
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s $3
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s

[Install]
WantedBy=multi-user.target
UNIT
}
