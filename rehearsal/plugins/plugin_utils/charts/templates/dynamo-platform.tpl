{{- include "standin.webhook" (dict "top" .
  "service" "dynamo-operator-webhook-service" "configuration" "dynamo-operator-validating" "hook" "vdynamographdeployment.kb.io"
  "group" "nvidia.com" "resource" "dynamographdeployments"
  "right" `has(object.spec.services) && object.spec.services.size() > 0`
  "says" "spec.services must have at least one service") }}
