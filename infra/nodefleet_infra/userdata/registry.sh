# Images of the account's own registry: the kubelet asks a program for a login, and that asks AWS with the instance's
# role. The program is these few lines and AWS's own CLI, so there is nothing to download. AWS's logins are good for 12 h.
readonly PROVIDERS="$ROOT/var/lib/rancher/credentialprovider"

write_registry_login() {
  keep "$PROVIDERS/bin/node-fleet-ecr" 0755 <<'PROGRAM'
#!/bin/bash
# node-fleet-ecr REGISTRY REGION <request >answer. Which images this is for, the kubelet's configuration says.
set -euo pipefail
cat >/dev/null
password=$(aws ecr get-login-password --region "$2")
[[ -n $password ]]
printf '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
printf '"cacheKeyType":"Registry","cacheDuration":"6h","auth":{"%s":{"username":"AWS","password":"%s"}}}\n' "$1" "$password"
PROGRAM
  keep "$PROVIDERS/config.yaml" 0644 <<YAML
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: node-fleet-ecr
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: ["$REGISTRY"]
    defaultCacheDuration: 6h
    args: ["$REGISTRY", "$REGION"]
YAML
}
