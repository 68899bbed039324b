{{- include "standin.webhook" (dict "top" .
  "service" "kueue-webhook-service" "configuration" "kueue-controller-manager" "hook" "vclusterqueue.kb.io"
  "group" "kueue.x-k8s.io" "resource" "clusterqueues"
  "right" `!has(object.spec.resourceGroups) || object.spec.resourceGroups.all(a, object.spec.resourceGroups.exists_one(b, b.coveredResources == a.coveredResources))`
  "says" "a resource is covered twice") }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: kueue-manager-config
  labels:
    {{- include "standin.labels" . | nindent 4 }}
data:
  controller_manager_config.yaml: {{ ((.Values.managerConfig).controllerManagerConfigYaml) | default "" | quote }}
