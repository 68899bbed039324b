{{- /* Of the section of the operator the policy gets what its definition has; the rest is the operator's own Deployment's
(NVIDIA/gpu-operator, deployments/gpu-operator/templates/clusterpolicy.yaml). */ -}}
{{- $operator := pick (.Values.operator | default dict) "runtimeClass" "defaultRuntime" "initContainer" "labels" "annotations" "use_ocp_driver_toolkit" }}
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
  labels:
    {{- include "standin.labels" . | nindent 4 }}
    app.kubernetes.io/component: gpu-operator
spec:
  {{- range $key := list "operator" "daemonsets" "validator" "driver" "toolkit" "devicePlugin" "dcgm" "dcgmExporter" "gfd" "mig" "migManager" "nodeStatusExporter" "gdrcopy" "gds" "cdi" "psa" "sandboxWorkloads" "vfioManager" "kataManager" "ccManager" "hostPaths" }}
  {{- with eq $key "operator" | ternary $operator (index $.Values $key) }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
