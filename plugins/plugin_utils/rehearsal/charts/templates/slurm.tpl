{{- $persistence := .Values.controller.persistence }}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: slurm-controller
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "standin.labels" . | nindent 4 }}
spec:
  serviceName: slurm-controller
  replicas: 1
  selector:
    matchLabels: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: controller}
  template:
    metadata:
      labels: {app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: controller}
    spec:
      tolerations: {{ .Values.controller.podSpec.tolerations | default list | toJson }}
      nodeSelector: {{ .Values.controller.podSpec.nodeSelector | default dict | toJson }}
      containers:
        - {name: slurmctld, image: "rehearsal/slurmctld:{{ .Chart.AppVersion }}"}
  {{- if $persistence.enabled }}
  volumeClaimTemplates:
    - metadata: {name: statesave}
      spec:
        accessModes: {{ $persistence.accessModes | toJson }}
        storageClassName: {{ $persistence.storageClassName | toJson }}
        resources: {requests: {storage: {{ $persistence.size }}}}
  {{- end }}
{{- range $name, $set := .Values.nodesets }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: slurm-worker-{{ $name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "standin.labels" $ | nindent 4 }}
spec:
  serviceName: slurm-worker-{{ $name }}
  replicas: {{ $set.replicas | default 1 }}
  selector:
    matchLabels: {app.kubernetes.io/instance: {{ $.Release.Name }}, app.kubernetes.io/component: worker-{{ $name }}}
  template:
    metadata:
      labels: {app.kubernetes.io/instance: {{ $.Release.Name }}, app.kubernetes.io/component: worker-{{ $name }}}
    spec:
      tolerations: {{ dig "podSpec" "tolerations" list $set | toJson }}
      nodeSelector: {{ dig "podSpec" "nodeSelector" dict $set | toJson }}
      containers:
        - name: slurmd
          image: "rehearsal/slurmd:{{ $.Chart.AppVersion }}"
          resources: {{ dig "slurmd" "resources" dict $set | toJson }}
{{- end }}
