# A worker joins its cluster. Nothing secret stands here: the token is fetched with the instance's own role.

learn_worker() { learn_machine && MARKET=$(metadata instance-life-cycle); }

token_is_there() {
  read_secret "$AGENT_TOKEN_SECRET" || return 1
  # The form that carries the CA's hash: with the short one an agent would trust whoever answers.
  [[ $SECRET == K10*::* ]] || { say "the agent token is not in its secure form"; return 1; }
}

server_answers() { curl -sfk -m 5 -o "$RUN/cacerts" "$SERVER/cacerts"; }

node_is_registered() {
  "$BINARY" kubectl --kubeconfig "$ROOT/var/lib/rancher/k3s/agent/kubelet.kubeconfig" get node "$INSTANCE" -o name
}

tell_why() {
  say 'the last words of the agent:'
  journalctl -u k3s-agent.service --no-pager -n 40 | tee -a "$ROOT/dev/console" || true
}

boot() {
  step 'asking the metadata service who this is'
  retry 120 learn_worker
  run_at_every_start
  step 'fetching K3s'
  fetch_k3s
  step 'fetching the agent token'
  retry 600 token_is_there
  step 'writing the configuration'
  write_registry_login
  # node-exporter looks here on every node; only the server has something to tell.
  mkdir -p "$ROOT/var/lib/node-fleet/metrics"
  chmod 0755 "$ROOT/var/lib/node-fleet" "$ROOT/var/lib/node-fleet/metrics"
  keep "$CONFIG/config.yaml" 0600 <<YAML
server: "$SERVER"
token: "$SECRET"
node-name: "$INSTANCE"
node-ip: "$ADDRESS"
kubelet-arg:
  - "provider-id=aws:///$ZONE/$INSTANCE"
image-credential-provider-bin-dir: "$PROVIDERS/bin"
image-credential-provider-config: "$PROVIDERS/config.yaml"
node-label:
  - "$ZONE_LABEL=$ZONE"
  - "$REGION_LABEL=$REGION"
  - "$TYPE_LABEL=$TYPE"
  - "$CAPACITY_LABEL=$([[ $MARKET == spot ]] && echo spot || echo on-demand)"
$POOL_YAML
YAML
  k3s_unit k3s-agent.service exec agent
  step "waiting for the server at $SERVER"
  retry 600 server_answers
  step 'joining'
  service k3s-agent.service
  if ! retry 240 node_is_registered; then
    tell_why
    return 1
  fi
  say "joined as $INSTANCE"
}

boot
