# What the server does for itself beside K3s: logins for the functions, security updates, figures for Prometheus.

readonly STATE="$ROOT/var/lib/node-fleet"
readonly FIGURES="$STATE/metrics"
readonly METRICS_USER=node-fleet
readonly METRICS_SECRET=prometheus-login
readonly LOGIN_SECONDS=86400 # renewed when half of them are gone: a master that fails to has twelve hours and an alarm

seconds_in() { cat "$STATE/$1" 2>/dev/null || echo 0; }

# ── Prometheus's login ───────────────────────────────────────────────────────────────────────────────────────────

# bcrypt PASSWORD-FILE, which is how Prometheus knows a password. Amazon Linux's own Python has it; a newer one has not.
bcrypt() {
  local hash
  hash=$(python3 -W ignore -c 'import crypt, sys; salt = crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1024)
print(crypt.crypt(sys.stdin.read(), salt))' <"$1" 2>"$RUN/error") || hash=''
  if [[ $hash != \$2* ]]; then
    command -v htpasswd >"$RUN/found" || dnf -y -q install httpd-tools || return 1
    hash=$(htpasswd -niBC 10 "$METRICS_USER" <"$1") || return 1
    hash=${hash#*:}
  fi
  [[ $hash == \$2* ]] && echo "$hash"
}

make_metrics_login() {
  local files="$RUN/prometheus-login" hash code=0
  rm -rf "$files"
  mkdir -p "$files"
  new_token >"$files/password"
  if hash=$(bcrypt "$files/password"); then
    printf '%s' "$METRICS_USER" >"$files/username"
    printf 'basic_auth_users:\n  %s: "%s"\n' "$METRICS_USER" "$hash" >"$files/web.yml"
    printf 'basic_auth:\n  username: %s\n  password_file: /etc/prometheus-login/password\n' "$METRICS_USER" \
      >"$files/client.yml"
    kubectl -n "$NAMESPACE" create secret generic "$METRICS_SECRET" --from-file="$files" || code=$?
  else
    say 'there is no bcrypt here: Prometheus waits for its login, and does not run without one'
    code=1
  fi
  METRICS_PASSWORD=$(<"$files/password")
  rm -rf "$files"
  return "$code"
}

# The cluster keeps it, so that it comes back with a snapshot. To have another one delete the Secret: pods, Prometheus and
# the functions take the new one up within minutes.
find_metrics_login() {
  local found
  found=$(kubectl -n "$NAMESPACE" get secret "$METRICS_SECRET" --ignore-not-found -o 'jsonpath={.data.password}') || return 1
  METRICS_PASSWORD=$(base64 -d <<<"$found")
  if [[ -z $METRICS_PASSWORD ]]; then make_metrics_login; fi
}

# ── the functions' login ─────────────────────────────────────────────────────────────────────────────────────────

account_is_there() { kubectl -n "$NAMESPACE" get serviceaccount "$1" -o name; }

# The API server may give less time than it was asked for: what it says counts.
login_is_made() {
  local made
  made=$(kubectl -n "$NAMESPACE" create token "$1" --duration="${LOGIN_SECONDS}s" \
    -o 'jsonpath={.status.token} {.status.expirationTimestamp}') &&
    CA=$(kubectl -n "$NAMESPACE" get configmap kube-root-ca.crt -o 'jsonpath={.data.ca\.crt}') || return 1
  TOKEN=${made% *}
  UNTIL=$(date -d "${made##* }" +%s) && [[ -n $TOKEN && -n $CA ]]
}

# Both in one secret. Without Prometheus's the functions still get theirs: a fleet may grow by the pods that wait.
publish_login() {
  local metrics='' known
  retry 300 account_is_there "$ACCOUNT" || return 1
  if retry 60 find_metrics_login; then
    metrics=", \"metrics_username\": \"$METRICS_USER\", \"metrics_password\": \"$METRICS_PASSWORD\""
  fi
  known=$(sha256sum <<<"$metrics")
  if (($(seconds_in login-expiry) - EPOCHSECONDS > LOGIN_SECONDS / 2)) &&
    [[ $known == "$(cat "$STATE/metrics-login" 2>/dev/null)" ]]; then return; fi
  retry 120 login_is_made "$ACCOUNT" || return 1
  publish "$API_SECRET" <<<"{\"server\": \"https://$ADDRESS:6443\", \"token\": \"$TOKEN\", \"ca\": \"${CA//$'\n'/\\n}\\n\"$metrics}" ||
    return 1
  echo "$known" >"$STATE/metrics-login"
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
