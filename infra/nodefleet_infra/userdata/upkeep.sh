# What the server does for itself beside K3s: a login for the functions, security updates, figures for Prometheus.

readonly STATE="$ROOT/var/lib/node-fleet"
readonly FIGURES="$STATE/metrics"
readonly LOGIN_SECONDS=86400 # renewed when half of them are gone: a master that fails to has twelve hours and an alarm

seconds_in() { cat "$STATE/$1" 2>/dev/null || echo 0; }

# ── the functions' login ─────────────────────────────────────────────────────────────────────────────────────────

account_is_there() { kubectl -n "$NAMESPACE" get serviceaccount "$ACCOUNT" -o name; }

# The API server may give less time than it was asked for: what it says counts.
login_is_made() {
  local made
  made=$(kubectl -n "$NAMESPACE" create token "$ACCOUNT" --duration="${LOGIN_SECONDS}s" \
    -o 'jsonpath={.status.token} {.status.expirationTimestamp}') &&
    CA=$(kubectl -n "$NAMESPACE" get configmap kube-root-ca.crt -o 'jsonpath={.data.ca\.crt}') || return 1
  TOKEN=${made% *}
  UNTIL=$(date -d "${made##* }" +%s) && [[ -n $TOKEN && -n $CA ]]
}

publish_login() {
  if (($(seconds_in login-expiry) - EPOCHSECONDS > LOGIN_SECONDS / 2)); then return; fi
  retry 300 account_is_there && retry 120 login_is_made || return 1
  publish "$API_SECRET" <<<"{\"server\": \"https://$ADDRESS:6443\", \"token\": \"$TOKEN\", \"ca\": \"${CA//$'\n'/\\n}\\n\"}" ||
    return 1
  echo "$UNTIL" >"$STATE/login-expiry"
  # Earlier releases published tokens that never expire.
  kubectl -n "$NAMESPACE" delete secrets -l "node-fleet.io/login=$ACCOUNT"
}

# ── security updates ─────────────────────────────────────────────────────────────────────────────────────────────

reboot_is_due() {
  local kernel
  kernel=$(grubby --default-kernel) && [[ $kernel != *"-$(uname -r)" ]]
}

# Amazon Linux stays at the release of its image unless it is told otherwise.
install_updates() {
  if [[ $UPDATES == off ]]; then return; fi
  dnf -y -q upgrade --security --releasever=latest
  echo "$EPOCHSECONDS" >"$STATE/updated"
  if [[ $UPDATES == security-and-reboot ]] && reboot_is_due; then
    say 'a new kernel: starting again in a minute'
    shutdown -r +1
  fi
}

# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────

# node-exporter runs as nobody. That the file is fresh is a figure, too.
tell_figures() {
  local due=0
  retry 60 find_newest || return 1
  if [[ $UPDATES != off ]] && reboot_is_due; then due=1; fi
  mkdir -p "$FIGURES"
  chmod 0711 "$STATE"
  chmod 0755 "$FIGURES"
  cat >"$FIGURES/node-fleet.fresh" <<PROM
node_fleet_snapshot_timestamp_seconds $NEWEST_AT
node_fleet_login_expiry_timestamp_seconds $(seconds_in login-expiry)
node_fleet_updates_timestamp_seconds $(seconds_in updated)
node_fleet_reboot_due $due
PROM
  chmod 0644 "$FIGURES/node-fleet.fresh"
  mv -f "$FIGURES/node-fleet.fresh" "$FIGURES/node-fleet.prom"
}
