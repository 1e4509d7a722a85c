# What a K3s server starts with: it fetches the server's program, in the version that the stack deployed last, and runs
# it. The program changes with every release and is applied to the machine as it runs. This file is user data, and
# changing it replaces every server: keep it small, and leave it alone.
set -euo pipefail
umask 077
export AWS_DEFAULT_REGION="$REGION" AWS_PAGER='' AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=5
export RESTORE # for the program, when the machine has no data yet

readonly PROGRAM="$ROOT/usr/local/sbin/node-fleet-server"
readonly AT_EVERY_START="$ROOT/var/lib/cloud/scripts/per-boot/node-fleet"
readonly TRIES=20 # with pauses of 1, 2, 4 … 20 s: about five minutes

say() { TZ=UTC printf '%(%FT%TZ)T node-fleet: %s\n' -1 "$*"; }

has_checksum() { echo "$1  $2" | sha256sum --check --status 2>/dev/null; }

# `current` holds the program's SHA-256, which is also its name.
fetch_program() {
  local wanted
  wanted=$(aws s3 cp --only-show-errors "s3://$BUCKET/$PROGRAMS/current" -) || return 1
  if [[ ! $wanted =~ ^[0-9a-f]{64}$ ]]; then
    say "s3://$BUCKET/$PROGRAMS/current does not hold a checksum"
    return 1
  fi
  if has_checksum "$wanted" "$PROGRAM"; then return; fi
  mkdir -p "$(dirname "$PROGRAM")"
  aws s3 cp --only-show-errors "s3://$BUCKET/$PROGRAMS/$wanted" "$PROGRAM.fresh" || return 1
  if ! has_checksum "$wanted" "$PROGRAM.fresh"; then
    rm -f "$PROGRAM.fresh"
    say "what lies at s3://$BUCKET/$PROGRAMS/$wanted does not have that checksum"
    return 1
  fi
  chmod 0700 "$PROGRAM.fresh"
  mv -f "$PROGRAM.fresh" "$PROGRAM"
}

# cloud-init runs user data once in a machine's life; what lies there it runs at every start.
if [[ ! $0 -ef $AT_EVERY_START ]]; then
  mkdir -p "$(dirname "$AT_EVERY_START")"
  cp "$0" "$AT_EVERY_START"
  chmod 0700 "$AT_EVERY_START"
fi

say 'fetching the program'
tries=0 pause=1
until fetch_program; do
  tries=$((tries + 1))
  if ((tries >= TRIES)); then
    if [[ -x $PROGRAM ]]; then
      say 'the program cannot be fetched: going on with the one of the last start'
      break
    fi
    say 'FAILED while fetching the program' | tee -a "$ROOT/dev/console" >&2
    exit 1
  fi
  say "the program cannot be fetched yet; again in $pause s"
  sleep "$pause"
  pause=$((pause * 2 > 20 ? 20 : pause * 2))
done
exec "$PROGRAM" boot
