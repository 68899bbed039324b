apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app.kubernetes.io/component: gpu-operator
spec:
  {{- range $key := list "operator" "daemonsets" "validator" "driver" "toolkit" "devicePlugin" "dcgm" "dcgmExporter" "gfd" "mig" "migManager" "nodeStatusExporter" "gdrcopy" "gds" "cdi" "psa" "sandboxWorkloads" "vfioManager" "kataManager" "ccManager" "hostPaths" }}
  {{- with index $.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
